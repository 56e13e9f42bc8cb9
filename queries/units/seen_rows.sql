-- grain: one row per unit of a table of units
-- reads: unit_day
-- as seen_units, where every unit has one row
select unit_id, first_ms, day as first_day, variant_low, variant_high
from unit_day
where in_period
