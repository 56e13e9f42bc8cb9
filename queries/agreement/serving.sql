-- grain: one row per side and group of units: how impressions were served, and clicks on healthy ones
-- reads: agreement_served (side, cluster, state, click, timeout, fallback, empty, latency)
select
  side, cluster, count(*) as impressions, cast(sum(click) as bigint) as clicks,
  count(timeout) as timeout_known,
  cast(sum(case when timeout > 0 then 1 else 0 end) as bigint) as timeout,
  count(fallback) as fallback_known,
  cast(sum(case when fallback > 0 then 1 else 0 end) as bigint) as fallback,
  count(empty) as empty_known,
  cast(sum(case when empty > 0 then 1 else 0 end) as bigint) as empty,
  count(latency) as latency_known,
  cast(sum(cast(round(1000 * latency) as bigint)) as bigint) as latency_thousandths,
  cast(sum(case when state = 'failed' then 0 else 1 end) as bigint) as healthy,
  cast(sum(case when state = 'failed' then 0 else click end) as bigint) as healthy_clicks
from agreement_served
group by side, cluster
