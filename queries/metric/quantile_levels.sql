-- grain: one row per variant and value that occurs: impressions with it, its middle (twice the
-- impressions with a smaller value, plus those with it), and the next value with its middle
-- reads: quantile_event (variant, value: a whole number, never null)
with levels as (
  select variant, value, count(*) as events
  from quantile_event
  group by variant, value
),
middles as (
  select
    variant, value, events,
    cast(
      2 * sum(events) over (partition by variant order by value rows unbounded preceding) - events
      as bigint
    ) as middle
  from levels
)
select
  variant, value, events, middle,
  lead(value) over (partition by variant order by value) as next_value,
  lead(middle) over (partition by variant order by value) as next_middle
from middles
