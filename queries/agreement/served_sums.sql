-- grain: one row per side, group of units and version of the model: rows, and how they were served
-- reads: agreement_served (side, cluster, state, click, learned, time_ms, feature_time, timeout, fallback,
--   empty, latency, stale, model_version, age_ms)
-- Learned rows are rows of the training data; features are late if they are newer than their row; clicks
-- are healthy if the request did not fail.
select
  side, cluster, model_version, count(*) as impressions,
  cast(sum(learned) as bigint) as learned,
  count(feature_time) as feature_known,
  cast(sum(case when feature_time > time_ms then 1 else 0 end) as bigint) as late,
  count(timeout) as timeout_known,
  cast(sum(case when timeout > 0 then 1 else 0 end) as bigint) as timeout,
  count(fallback) as fallback_known,
  cast(sum(case when fallback > 0 then 1 else 0 end) as bigint) as fallback,
  count(empty) as empty_known,
  cast(sum(case when empty > 0 then 1 else 0 end) as bigint) as empty,
  count(latency) as latency_known,
  coalesce(cast(sum(cast(round(1000 * latency) as bigint)) as bigint), 0) as latency_thousandths,
  count(stale) as stale_known,
  cast(sum(case when stale > 0 then 1 else 0 end) as bigint) as stale,
  count(age_ms) as age_known, coalesce(cast(sum(age_ms) as double), 0) as age_ms,
  cast(sum(case when state = 'failed' then 0 else 1 end) as bigint) as healthy,
  cast(sum(case when state = 'failed' then 0 else click end) as bigint) as healthy_clicks
from agreement_served
group by side, cluster, model_version
