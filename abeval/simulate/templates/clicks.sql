-- grain: one row per click
-- reads: chunk, of all clicks
select impression_id, time, case when dwell >= 0 then dwell end as dwell_ms
from chunk
