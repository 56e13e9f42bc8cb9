-- grain: one row per unit of the source variant: its number from 0, in the order of ids as logged
-- reads: served, comparison (source), unit_names (unit_id, logged_id)
with shown as (
  select distinct s.unit_id
  from served s
  join comparison c on s.variant = c.source
)
select s.unit_id, row_number() over (order by n.logged_id) - 1 as unit_no
from shown s
join unit_names n on s.unit_id = n.unit_id
