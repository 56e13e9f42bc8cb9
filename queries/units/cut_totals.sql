-- grain: one row per analysed unit and cell of a cut in which it has an impression in the period
-- reads: cut_sums, cut_cells (value, cell, number: several values may be one cell), units
with totals as (
  select
    s.unit_id as total_unit_id, c.cell, c.number,
    sum(columns('^c_([0-9]+)$')) as 't_\1'
  from cut_sums s
  join cut_cells c on s.value = c.value
  group by s.unit_id, c.cell, c.number
)
select unit_id, variant, stretch, cell, number, cast(columns('^t_') as bigint)
from units
join totals on unit_id = total_unit_id
