-- grain: one row per audited unit: its impressions, and how many of them have each flag
-- reads: audited
select unit_hash, count(*) as impressions, cast(sum(columns('^f_[0-9]')) as bigint)
from audited
group by unit_hash
