-- grain: one row per part, variant and cluster: halves of won pairs, and pairs, of both models
-- reads: agreement_strata (part, variant, stratum, cluster, click, baseline, candidate)
-- A clicked row beats the unclicked ones below its score, among the rows of its part, variant and
-- stratum; an unclicked row is beaten by the clicked ones above it. Each pair is counted at both of
-- its rows, so that a cluster's counts, less their expectation, are its influence on the AUC.
with strata as (
  select part, variant, stratum, sum(click) as positives, sum(1 - click) as negatives
  from agreement_strata
  group by part, variant, stratum
),
baseline_levels as (
  select part, variant, stratum, baseline, sum(click) as positives, sum(1 - click) as negatives
  from agreement_strata
  group by part, variant, stratum, baseline
),
baseline_places as (
  select
    part, variant, stratum, baseline,
    2 * sum(negatives) over below - negatives as beaten,
    2 * sum(positives) over below - positives as unbeaten
  from baseline_levels
  window
    below as (partition by part, variant, stratum order by baseline rows unbounded preceding)
),
candidate_levels as (
  select part, variant, stratum, candidate, sum(click) as positives, sum(1 - click) as negatives
  from agreement_strata
  group by part, variant, stratum, candidate
),
candidate_places as (
  select
    part, variant, stratum, candidate,
    2 * sum(negatives) over below - negatives as beaten,
    2 * sum(positives) over below - positives as unbeaten
  from candidate_levels
  window
    below as (partition by part, variant, stratum order by candidate rows unbounded preceding)
)
select
  s.part, s.variant, s.cluster,
  cast(sum(case when s.click = 1 then t.negatives else t.positives end) as bigint) as pairs,
  cast(sum(case when s.click = 1 then b.beaten else 2 * t.positives - b.unbeaten end) as bigint)
    as baseline_halves,
  cast(sum(case when s.click = 1 then c.beaten else 2 * t.positives - c.unbeaten end) as bigint)
    as candidate_halves
from agreement_strata s
join strata t on s.part = t.part and s.variant = t.variant and s.stratum = t.stratum
join baseline_places b
  on s.part = b.part and s.variant = b.variant and s.stratum = b.stratum
  and s.baseline = b.baseline
join candidate_places c
  on s.part = c.part and s.variant = c.variant and s.stratum = c.stratum
  and s.candidate = c.candidate
group by s.part, s.variant, s.cluster
