-- grain: one row per part, variant and cluster: halves of won pairs, and pairs, of both models
-- reads: agreement_strata (part, variant, stratum, cluster, click, baseline, candidate)
-- A clicked row beats the unclicked ones below its score, among the rows of its part, variant and
-- stratum; an unclicked row is beaten by the clicked ones above it. Each pair is counted at both of
-- its rows, so that a cluster's counts, less their expectation, are its influence on the AUC. Strata
-- are numbered, and counts are doubles, because engines sort and add these fastest.
with strata as (
  select
    part, variant, stratum,
    cast(row_number() over (order by part, variant, stratum) as integer) as number,
    cast(sum(click) as bigint) as positives, cast(sum(1 - click) as bigint) as negatives
  from agreement_strata
  group by part, variant, stratum
),
numbered as (
  select
    t.number, t.part, t.variant, t.positives, t.negatives, s.cluster, s.click, s.baseline,
    s.candidate
  from agreement_strata s
  join strata t on s.part = t.part and s.variant = t.variant and s.stratum = t.stratum
),
baseline_levels as (
  select
    number, baseline, cast(sum(click) as double) as positives,
    cast(sum(1 - click) as double) as negatives
  from numbered
  group by number, baseline
),
baseline_places as (
  select
    number, baseline, cast(2 * sum(negatives) over below - negatives as bigint) as beaten,
    cast(2 * sum(positives) over below - positives as bigint) as unbeaten
  from baseline_levels
  window below as (partition by number order by baseline rows unbounded preceding)
),
candidate_levels as (
  select
    number, candidate, cast(sum(click) as double) as positives,
    cast(sum(1 - click) as double) as negatives
  from numbered
  group by number, candidate
),
candidate_places as (
  select
    number, candidate, cast(2 * sum(negatives) over below - negatives as bigint) as beaten,
    cast(2 * sum(positives) over below - positives as bigint) as unbeaten
  from candidate_levels
  window below as (partition by number order by candidate rows unbounded preceding)
)
select
  s.part, s.variant, s.cluster,
  cast(sum(case when s.click = 1 then s.negatives else s.positives end) as bigint) as pairs,
  cast(sum(case when s.click = 1 then b.beaten else 2 * s.positives - b.unbeaten end) as bigint)
    as baseline_halves,
  cast(sum(case when s.click = 1 then c.beaten else 2 * s.positives - c.unbeaten end) as bigint)
    as candidate_halves
from numbered s
join baseline_places b on s.number = b.number and s.baseline = b.baseline
join candidate_places c on s.number = c.number and s.candidate = c.candidate
group by s.part, s.variant, s.cluster
