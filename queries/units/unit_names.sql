-- grain: one row per unit: its number, by which every other relation knows it, and its id as logged
-- reads: known_units (logged_id)
select row_number() over (order by logged_id) as unit_id, logged_id
from known_units
