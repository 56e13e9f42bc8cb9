-- grain: one row per unit and day with a scored impression in the period
-- reads: scored_day (variant, unit_id, day, score of the served model, click)
-- AUC of a unit within a day by rank sums, ties half; a unit-day without both classes adds nothing
with levels as (
  select unit_id, day, score, count(*) as n, sum(click) as p
  from scored_day
  group by unit_id, day, score
),
ranked as (
  select
    unit_id, day, n, p,
    sum(n - p) over (
      partition by unit_id, day order by score rows unbounded preceding
    ) as at_or_below
  from levels
),
per_unit as (
  select
    unit_id, day, sum(n) as n, sum(p) as p,
    sum(p * (2 * at_or_below - (n - p))) as halves
  from ranked
  group by unit_id, day
),
judged as (
  select
    unit_id, day, n, p > 0 and p < n as has_both,
    cast(halves as double) / nullif(2.0e0 * p * (n - p), 0) as auc
  from per_unit
)
select
  unit_id, true as in_period, day,
  cast(case when has_both then n else 0 end as bigint) as c_impressions,
  case when has_both then cast(round(1e9 * n * auc) as bigint) else 0 end as c_weighted_auc
from judged
