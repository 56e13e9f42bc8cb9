-- grain: one row per unit and day with a scored impression; over the whole period, day is null
-- reads: scored (unit_id, day, score of the served model, click)
-- AUC of a unit by the places of its clicked scores (Mann and Whitney 1947); a unit (of a day)
-- without both classes is left out, and counted. The place of a clicked row counts all unclicked rows of
-- its score as below it; half of their number is subtracted, so that a tie counts 1/2
with ranked as (
  select
    unit_id, day, click,
    row_number() over by_both as place,
    rank() over by_both - rank() over by_score as tied
  from scored
  window
    by_score as (partition by unit_id, day order by score),
    by_both as (partition by unit_id, day order by score, click)
),
summed as (
  select
    unit_id, day, count(*) as n, sum(click) as p,
    sum(case when click = 1 then 2 * place - tied else 0 end) as twice_ranks
  from ranked
  group by unit_id, day
),
judged as (
  select
    unit_id, day, n, p, p > 0 and p < n as has_both,
    cast(twice_ranks - p * (p + 1) as double) / nullif(2.0e0 * p * (n - p), 0) as auc
  from summed
)
select
  unit_id, true as in_period, day,
  cast(case when has_both then n else 0 end as bigint) as c_impressions,
  case when has_both then cast(round(1e9 * n * auc) as bigint) else 0 end as c_weighted_auc,
  case when has_both then 0 else 1 end as c_left_out_units,
  cast(case when has_both then 0 else n end as bigint) as c_left_out_impressions,
  cast(case when has_both then 0 else p end as bigint) as c_left_out_clicks
from judged
