-- grain: one row per unit that has an impression which counts
-- reads: logged_cells
select distinct unit_id as logged_id
from logged_cells
where set_aside is null
