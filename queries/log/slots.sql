-- grain: one row per cluster and slot of which rows count after the burn-in
-- reads: dated (impressions with cluster, slot, since_ms), experiment (burn_in_ms)
-- whether the slot before had its variant alone, and whether it shows several variants
with shown as (
  select
    cluster, slot, min(variant) <> max(variant) as has_both,
    min(case when since_ms >= burn_in_ms then variant end) as low,
    max(case when since_ms >= burn_in_ms then variant end) as high
  from dated
  cross join experiment
  where reason is null and in_period and cluster is not null
  group by cluster, slot
  having max(since_ms - burn_in_ms) >= 0
),
followed as (
  select
    cluster, slot, low, high, has_both,
    coalesce(
      lag(slot) over w = slot - 1 and lag(low) over w = high and lag(high) over w = low, false
    ) as goes_on
  from shown
  window w as (partition by cluster order by slot)
)
select cluster, slot, goes_on, low <> high or (goes_on and has_both) as is_mixed
from followed
