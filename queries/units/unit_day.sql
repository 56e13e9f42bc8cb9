-- grain: one row per unit, phase (in_period or before it) and local day
-- reads: unit_cells
-- c_1 counts impressions, c_days days; the other c_ columns are the sums that the chosen metrics need
select
  unit_id, in_period, day,
  min(first_ms) as first_ms,
  max(last_ms) as last_ms,
  min(variant) as variant_low,
  max(variant) as variant_high,
  cast(case when day is null then 0 else 1 end as bigint) as c_days,
  cast(sum(columns('^c_[0-9]')) as bigint)
from unit_cells
group by unit_id, in_period, day
