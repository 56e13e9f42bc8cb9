-- grain: one row per unit with an impression in the period
-- reads: unit_day
select
  unit_id,
  min(first_ms) as first_ms,
  min(day) as first_day,
  min(variant_low) as variant_low,
  max(variant_high) as variant_high
from unit_day
where in_period
group by unit_id
