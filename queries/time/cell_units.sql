-- grain: one row per variant, entry day and hour or weekday: units with an impression in it
-- reads: unit_cell (unit_id, variant, entry_day, day)
select variant, cast(entry_day as varchar) as cohort, cast(day as varchar) as day, count(*) as units
from unit_cell
group by variant, entry_day, day
order by variant, cohort, day
