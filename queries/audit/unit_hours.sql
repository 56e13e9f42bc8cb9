-- grain: one row per audited unit and hour since 1970: its impressions, and how many of them have each flag
-- reads: audited
select unit_id, hour, count(*) as impressions, cast(sum(columns('^f_[0-9]')) as bigint)
from audited
group by unit_id, hour
