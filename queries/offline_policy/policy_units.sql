-- grain: one row per unit of the source variant: its number from 0
-- reads: served, comparison (source)
with shown as (
  select distinct s.unit_id
  from served s
  join comparison c on s.variant = c.source
)
select unit_id, row_number() over (order by unit_id) - 1 as unit_no
from shown
