-- grain: one row per clicked impression: its clicks, and their dwell (null where none is known)
-- reads: click_fate (one row per distinct click, however often it was logged)
select key_1, key_2, key_3, count(*) as clicks, cast(sum(dwell_ms) as bigint) as dwell_ms
from click_fate
where set_aside is null
group by key_1, key_2, key_3
