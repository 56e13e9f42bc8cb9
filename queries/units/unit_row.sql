-- grain: one row per unit of a table of units
-- reads: unit_cells
-- as unit_day, where every unit has one row and no day
select
  unit_id, in_period, day, first_ms, last_ms, variant as variant_low, variant as variant_high,
  cast(0 as bigint) as c_days,
  columns('^c_[0-9]')
from unit_cells
