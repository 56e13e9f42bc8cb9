-- grain: one row per side, group of units and version of the model: its rows and their age
-- reads: agreement_served (side, cluster, state, stale, model_version, age_ms)
select
  side, cluster, model_version, count(*) as impressions,
  count(age_ms) as age_known, cast(sum(age_ms) as double) as age_ms,
  count(stale) as stale_known,
  cast(sum(case when stale > 0 then 1 else 0 end) as bigint) as stale,
  cast(sum(case when state = 'old' then 1 else 0 end) as bigint) as old
from agreement_served
group by side, cluster, model_version
