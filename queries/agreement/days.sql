-- grain: one row per variant, day and group of units: sums of clicks and of both models' scores
-- reads: agreement_served (variant, day, cluster, click, baseline, candidate)
-- Scores are summed as whole multiples of 1e-9; those outside [0, 1] are no probabilities
select
  variant, cast(day as varchar) as day, cluster, count(*) as impressions,
  cast(sum(click) as bigint) as clicks,
  cast(sum(case when baseline between 0 and 1 then click end) as bigint) as baseline_clicks,
  cast(sum(case when candidate between 0 and 1 then click end) as bigint) as candidate_clicks,
  cast(sum(case when baseline between 0 and 1 then cast(round(1e9 * baseline) as bigint) end)
    as double) as baseline_nanos,
  cast(sum(case when candidate between 0 and 1 then cast(round(1e9 * candidate) as bigint) end)
    as double) as candidate_nanos
from agreement_served
where day is not null
group by variant, cast(day as varchar), cluster
