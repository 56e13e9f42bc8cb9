-- grain: one row per variant and local day: units that entered the experiment on it
-- reads: entry (unit_id, variant, entry_day)
select variant, cast(entry_day as varchar) as cohort, count(*) as units
from entry
group by variant, entry_day
order by variant, entry_day
