-- grain: one row per variant, group of units and hour since 1970 with an impression
-- reads: audited
select variant, cluster, hour, count(*) as impressions
from audited
group by variant, cluster, hour
