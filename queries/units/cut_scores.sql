-- grain: one row per analysed unit and cell of a cut in which it has an impression in the period, with
-- what a source of scores adds up to there
-- reads: cut_totals, cut_source (unit_id, c_ columns: its units are units in cells, numbered
-- unit_id * cells + number), cut_size (cells)
-- a unit without a scored impression in the cell has zeros
with known as (
  select unit_id as known_unit_id, columns('^c_')
  from cut_source
)
select t.unit_id, t.variant, t.stretch, t.cell, coalesce(columns('^c_(.*)$'), 0) as 't_\1'
from cut_totals t
cross join cut_size s
left join known k on t.unit_id * s.cells + t.number = k.known_unit_id
