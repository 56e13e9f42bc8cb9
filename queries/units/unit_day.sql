-- grain: one row per unit, phase (in_period or before it) and local day
-- reads: unit_cells
-- c_1 counts impressions, c_days days; the other c_ columns are the sums that the chosen metrics need
-- the closed days of a unit are one row with their sums, without a day
select
  unit_id, in_period, day,
  min(first_ms) as first_ms,
  max(last_ms) as last_ms,
  min(variant_low) as variant_low,
  max(variant_high) as variant_high,
  min(first_day) as first_day,
  cast(sum(closed_days) + case when day is null then 0 else 1 end as bigint) as c_days,
  cast(sum(columns('^c_[0-9]')) as bigint)
from unit_cells
group by unit_id, in_period, day
