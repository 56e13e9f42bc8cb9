-- grain: one row per audited unit with an impression of the period that counts
-- reads: audited_units, unit_day
select distinct d.unit_id
from unit_day d
join audited_units u on d.unit_id = u.unit_id
where d.in_period
