-- grain: one row per audited unit and time at which it has an impression
-- reads: audited
select distinct unit_hash, time_ms
from audited
where time_ms is not null
