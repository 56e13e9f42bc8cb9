-- grain: one row per reason why rows of the table of units do not count, null for those that do; duplicates
-- are exact copies
-- reads: described_rows
select set_aside as reason, count(*) as units, cast(sum(copies - 1) as bigint) as duplicates
from described_rows
group by set_aside
order by set_aside
