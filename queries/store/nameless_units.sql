-- grain: one row per unit whose first impression in the period names no variant
-- reads: unit_cells, seen_units
select c.unit_id as nameless_unit_id
from unit_cells c
join seen_units u on c.unit_id = u.unit_id and c.first_ms = u.first_ms
where c.in_period
group by c.unit_id
having count(c.variant) = 0
