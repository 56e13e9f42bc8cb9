-- grain: one row per unit with a scored impression in the period
-- reads: scored (variant, unit_id, score of the served model, click)
-- AUC of a unit by rank sums, ties half; a unit without both classes is left out, and counted
with levels as (
  select unit_id, score, count(*) as n, sum(click) as p
  from scored
  group by unit_id, score
),
ranked as (
  select
    unit_id, n, p,
    sum(n - p) over (partition by unit_id order by score rows unbounded preceding) as at_or_below
  from levels
),
per_unit as (
  select
    unit_id, sum(n) as n, sum(p) as p,
    sum(p * (2 * at_or_below - (n - p))) as halves
  from ranked
  group by unit_id
),
judged as (
  select
    unit_id, n, p, p > 0 and p < n as has_both,
    cast(halves as double) / nullif(2.0e0 * p * (n - p), 0) as auc
  from per_unit
)
select
  unit_id, true as in_period,
  cast(case when has_both then n else 0 end as bigint) as c_impressions,
  case when has_both then cast(round(1e9 * n * auc) as bigint) else 0 end as c_weighted_auc,
  case when has_both then 0 else 1 end as c_left_out_units,
  cast(case when has_both then 0 else n end as bigint) as c_left_out_impressions,
  cast(case when has_both then 0 else p end as bigint) as c_left_out_clicks
from judged
