-- grain: no row: units whose first variant the log does not tell are not placed
-- reads: hashed_units
select unit_id, cast(null as varchar) as variant
from hashed_units
where false
