-- grain: one row per analysed unit and day of the period on which it has an impression
-- reads: unit_day, source_day (unit_id, in_period, day, c_ columns), units
-- a unit that the source does not know on the day has zeros
with active as (
  select unit_id, day from unit_day where in_period and day is not null
),
known as (
  select unit_id as known_unit_id, day as known_day, columns('^c_')
  from source_day
  where in_period
)
select u.variant, a.day, coalesce(columns('^c_'), 0)
from active a
join units u on a.unit_id = u.unit_id
left join known on a.unit_id = known_unit_id and a.day = known_day
