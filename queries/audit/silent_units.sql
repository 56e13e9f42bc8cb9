-- grain: one row per variant, stretch of entry days and group of units: exposed units, and those of them
-- without an impression
-- reads: audited_units, unit_day
with active as (
  select distinct unit_id from unit_day where in_period
)
select u.variant, u.stretch, u.cluster, count(*) as units, count(*) - count(a.unit_id) as silent
from audited_units u
left join active a on u.unit_id = a.unit_id
group by u.variant, u.stretch, u.cluster
