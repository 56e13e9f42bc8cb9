-- grain: one row per variant and unit: halves of won pairs and pairs of both models within positions
-- reads: agreement_rows (variant, unit_id, position, click, baseline, candidate)
-- A clicked row beats the unclicked ones below its score, among the rows of its variant and position;
-- an unclicked row is beaten by the clicked ones above it. Each pair is counted at both of its rows,
-- so that a unit's counts, less their expectation, are its influence on the stratified AUC.
with scored as (
  select variant, unit_id, position, click, baseline, candidate
  from agreement_rows
  where position is not null and baseline is not null and candidate is not null
),
places as (
  select
    variant, unit_id, click,
    sum(click) over stratum as positives,
    count(*) over stratum as impressions,
    2 * sum(1 - click) over by_baseline - sum(1 - click) over tied_baseline as baseline_beaten,
    2 * sum(click) over by_baseline - sum(click) over tied_baseline as baseline_below,
    2 * sum(1 - click) over by_candidate - sum(1 - click) over tied_candidate as candidate_beaten,
    2 * sum(click) over by_candidate - sum(click) over tied_candidate as candidate_below
  from scored
  window
    stratum as (partition by variant, position),
    by_baseline as (partition by variant, position order by baseline),
    tied_baseline as (partition by variant, position, baseline),
    by_candidate as (partition by variant, position order by candidate),
    tied_candidate as (partition by variant, position, candidate)
)
select
  variant, unit_id,
  cast(sum(case when click = 1 then impressions - positives else positives end) as bigint) as pairs,
  cast(sum(case when click = 1 then baseline_beaten else 2 * positives - baseline_below end) as bigint)
    as baseline_halves,
  cast(sum(case when click = 1 then candidate_beaten else 2 * positives - candidate_below end) as bigint)
    as candidate_halves
from places
group by variant, unit_id
