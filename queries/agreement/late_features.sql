-- grain: one row per side and group of units: rows with a time of features, and those later than them
-- reads: agreement_served (side, cluster, time_ms, feature_time)
select
  side, cluster, count(feature_time) as known,
  cast(sum(case when feature_time > time_ms then 1 else 0 end) as bigint) as late
from agreement_served
group by side, cluster
