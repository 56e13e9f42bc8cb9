-- grain: one row per variant: impressions that have a value
-- reads: quantile_level (variant, events)
select variant, cast(sum(events) as bigint) as events
from quantile_level
group by variant
order by variant
