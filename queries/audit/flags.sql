-- grain: one row per audited unit: how many of its impressions have each flag
-- reads: audited
select unit_hash, cast(sum(columns('^f_[0-9]')) as bigint)
from audited
group by unit_hash
