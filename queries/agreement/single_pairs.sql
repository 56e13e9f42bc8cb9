-- grain: one row per part, variant and cluster: halves of won pairs, and pairs, of one value
-- reads: agreement_strata (part, variant, cluster, click, value)
-- As `pairs`, of a single score or feature: a clicked row beats the unclicked ones below its value.
with totals as (
  select part, variant, sum(click) as positives, sum(1 - click) as negatives
  from agreement_strata
  group by part, variant
),
levels as (
  select part, variant, value, sum(click) as positives, sum(1 - click) as negatives
  from agreement_strata
  group by part, variant, value
),
places as (
  select
    part, variant, value,
    2 * sum(negatives) over below - negatives as beaten,
    2 * sum(positives) over below - positives as unbeaten
  from levels
  window below as (partition by part, variant order by value rows unbounded preceding)
)
select
  s.part, s.variant, s.cluster,
  cast(sum(case when s.click = 1 then t.negatives else t.positives end) as bigint) as pairs,
  cast(sum(case when s.click = 1 then p.beaten else 2 * t.positives - p.unbeaten end) as bigint)
    as halves
from agreement_strata s
join totals t on s.part = t.part and s.variant = t.variant
join places p on s.part = p.part and s.variant = p.variant and s.value = p.value
group by s.part, s.variant, s.cluster
