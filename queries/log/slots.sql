-- grain: one row per cluster and slot of which rows count after the burn-in
-- reads: dated (impressions with cluster, slot, since_ms), experiment (burn_in_ms)
-- whether the cluster's variant changed at its start, and whether it shows several variants
with shown as (
  select
    cluster, slot, min(variant) as low, max(variant) as high,
    min(case when since_ms >= burn_in_ms then variant end) as late_low,
    max(case when since_ms >= burn_in_ms then variant end) as late_high
  from dated
  cross join experiment
  where reason is null and in_period and cluster is not null
  group by cluster, slot
),
known as (
  select * from shown where late_low is not null
),
followed as (
  select
    *,
    lag(slot) over (partition by cluster order by slot) as slot_before,
    lag(late_low) over (partition by cluster order by slot) as low_before,
    lag(late_high) over (partition by cluster order by slot) as high_before
  from known
),
compared as (
  select
    *, coalesce(slot_before = slot - 1 and low_before = late_high and high_before = late_low, false)
      as goes_on
  from followed
)
select
  cluster, slot, goes_on,
  late_low <> late_high or (goes_on and low <> high) as is_mixed
from compared
