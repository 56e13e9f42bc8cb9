-- grain: one row per variant and value that occurs: impressions with it, and with it or a smaller one
-- reads: quantile_event (variant, value: a whole number, never null)
with levels as (
  select variant, value, count(*) as events
  from quantile_event
  group by variant, value
)
select
  variant, value, events,
  cast(
    sum(events) over (partition by variant order by value rows unbounded preceding) as bigint
  ) as events_to_here
from levels
