-- grain: one row per unit that has an impression which counts, or that was exposed
-- reads: logged_cells, exposed
select unit_id as logged_id from logged_cells where set_aside is null
union
select unit_id as logged_id from exposed
