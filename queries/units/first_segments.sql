-- grain: one row per unit: its segments at its first impression in the period
-- reads: seen_units, unit_cells (s_ columns)
select c.unit_id, min(columns('^s_'))
from unit_cells c
join seen_units u on c.unit_id = u.unit_id
where c.in_period and (u.first_ms is null or c.first_ms = u.first_ms)
group by c.unit_id
