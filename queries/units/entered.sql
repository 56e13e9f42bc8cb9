-- grain: one row per scheduled split, local entry day and hour, and variant: analysed units that entered
-- then
-- reads: entry_day (planned, entry_day, entry_hour, variant)
select
  planned, cast(entry_day as varchar) as entry_day, cast(entry_hour as integer) as entry_hour,
  variant, count(*) as units
from entry_day
group by planned, entry_day, entry_hour, variant
order by planned, entry_day, entry_hour, variant
