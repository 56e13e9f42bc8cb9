-- grain: one row per variant, group of units and position: sums of clicks and both models' scores
-- reads: agreement_served (variant, cluster, position, click, baseline, candidate)
-- Scores are summed as whole multiples of 1e-9; those outside [0, 1] are no probabilities
select
  variant, cluster, cast(position as bigint) as position,
  count(*) as impressions, cast(sum(click) as bigint) as clicks,
  cast(sum(case when baseline between 0 and 1 then click end) as bigint) as baseline_clicks,
  cast(sum(case when candidate between 0 and 1 then click end) as bigint) as candidate_clicks,
  cast(sum(case when baseline between 0 and 1 then cast(round(1e9 * baseline) as bigint) end)
    as double) as baseline_nanos,
  cast(sum(case when candidate between 0 and 1 then cast(round(1e9 * candidate) as bigint) end)
    as double) as candidate_nanos
from agreement_served
where position is not null
group by variant, cluster, cast(position as bigint)
