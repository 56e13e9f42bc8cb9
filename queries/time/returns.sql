-- grain: one row per variant, entry day, active day and the unit's active day before it (empty on
-- its first): units
-- reads: unit_day, entry (unit_id, variant, entry_day)
-- a unit counts in a window on its first active day there, the one day whose active day before lies
-- before the window: so these counts give the units of every window
with active as (
  select
    e.variant, e.entry_day, a.day,
    lag(a.day) over (partition by a.unit_id order by a.day) as previous_day
  from unit_day a
  join entry e on a.unit_id = e.unit_id
  where a.in_period and a.day is not null
)
select
  variant, cast(entry_day as varchar) as cohort, coalesce(cast(previous_day as varchar), '') as previous_day,
  cast(day as varchar) as day, count(*) as units
from active
group by variant, entry_day, previous_day, day
order by variant, cohort, previous_day, day
