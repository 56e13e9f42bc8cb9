-- grain: one row per reason why clicks do not count, null for those that do; duplicates are exact copies
-- reads: click_fate
select set_aside as reason, count(*) as clicks, cast(sum(copies - 1) as bigint) as duplicates
from click_fate
group by set_aside
order by set_aside
