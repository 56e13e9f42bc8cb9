-- grain: one row per unit, phase (in_period or before it), local day, logged variant and segments
-- reads: logged_cells, unit_names
-- every cell that counts has a number; a left join keeps the names in memory, not the wider cells
select
  n.unit_id,
  columns('^(in_period|day|variant|first_ms|last_ms|s_.*|c_[0-9]+)$')
from logged_cells c
left join unit_names n on c.unit_id = n.logged_id
where c.set_aside is null
