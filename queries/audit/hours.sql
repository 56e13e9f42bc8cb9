-- grain: one row per variant, group of units and hour since 1970 with an impression; rows without a time are in none
-- reads: audited
select variant, cluster, hour, count(*) as impressions
from audited
where hour is not null
group by variant, cluster, hour
