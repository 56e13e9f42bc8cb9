-- grain: one row per analysed unit: its number, and its id as logged
-- reads: units, unit_names
select n.unit_id, n.logged_id
from unit_names n
join units u on n.unit_id = u.unit_id
