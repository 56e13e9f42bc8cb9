-- grain: one row per variant: impressions that have a value, the lowest and the highest value
-- reads: quantile_level (variant, value, events)
select
  variant,
  cast(sum(events) as bigint) as events,
  min(value) as lowest,
  max(value) as highest
from quantile_level
group by variant
order by variant
