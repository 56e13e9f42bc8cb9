-- grain: one row per analysed unit and day of the period
-- reads: source_day (unit_id, in_period, day, c_ columns), units
select u.variant, d.day, columns('^c_')
from source_day d
join units u on d.unit_id = u.unit_id
where d.in_period and d.day is not null
