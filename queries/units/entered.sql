-- grain: one row per scheduled split, local entry day and variant: analysed units that entered then
-- reads: entry_day (planned, entry_day, variant)
select planned, cast(entry_day as varchar) as entry_day, variant, count(*) as units
from entry_day
group by planned, entry_day, variant
order by planned, entry_day, variant
