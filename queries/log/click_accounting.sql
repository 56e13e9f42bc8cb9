-- grain: one row per reason; null is the clicks that count, and copies are exact duplicates
-- reads: click_fate
select set_aside as reason, count(*) as clicks, cast(sum(copies - 1) as bigint) as duplicates
from click_fate
group by set_aside
order by set_aside
