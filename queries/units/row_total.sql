-- grain: one row per analysed unit of a table of units: what its row says (t_), and zeros (p_)
-- reads: source_day (unit_id, c_ columns), units (unit_id, variant, stretch, sub_bucket, is_new, s_ and u_ columns)
-- as unit_total, where every unit has one row
with totals as (
  select
    unit_id as total_unit_id,
    columns('^c_(.*)$') as 't_\1',
    0 * columns('^c_(.*)$') as 'p_\1'
  from source_day
)
select
  columns('^(unit_id|variant|stretch|sub_bucket|is_new|[su]_.*)$'),
  cast(coalesce(columns('^[tp]_'), 0) as bigint)
from units
left join totals on unit_id = total_unit_id
