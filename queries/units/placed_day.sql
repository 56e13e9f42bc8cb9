-- grain: one row per analysed unit and day of the period on which it has an impression
-- reads: unit_day, source_day (unit_id, in_period, day, c_ columns), units (windows read entry
-- in its place, and get its entry_day)
-- a unit without a row of the source on the day has zeros
with active as (
  select unit_id as active_unit_id, day
  from unit_day
  where in_period and day is not null
),
known as (
  select unit_id as known_unit_id, day as known_day, columns('^c_')
  from source_day
  where in_period
)
select columns('^(unit_id|variant|stretch|entry_day)$'), day, coalesce(columns('^c_'), 0)
from active
join units on active_unit_id = unit_id
left join known on active_unit_id = known_unit_id and day = known_day
