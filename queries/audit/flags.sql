-- grain: one row per variant and group of units: its impressions, and how many of them have each flag
-- reads: audited
select variant, cluster, count(*) as impressions, cast(sum(columns('^f_[0-9]')) as bigint)
from audited
group by variant, cluster
