-- grain: one row per unit whose closed days were counted for another variant than it is analysed in
-- reads: closed_cells, unit_names, units
-- placed is the variant that they were counted for, variant that of now; null if there is none
select c.unit_id as logged_id, n.unit_id, c.placed, u.variant
from closed_cells c
join unit_names n on c.unit_id = n.logged_id
left join units u on n.unit_id = u.unit_id
where c.in_period and c.set_aside is null
  and coalesce(c.placed, '') <> coalesce(u.variant, '')
