-- grain: one row per unit of which neither log nor plan tells the first variant; there is none, so that
-- such units are not placed
-- reads: hashed_units
select unit_id, cast(null as varchar) as variant
from hashed_units
where false
