-- grain: one row per phase: impressions that reached the units' sums
-- reads: unit_day
select in_period, cast(sum(c_1) as bigint) as impressions
from unit_day
group by in_period
