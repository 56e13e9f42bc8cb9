-- grain: one row per unit seen before the period: its segments at its last impression then
-- reads: unit_cells (s_ columns)
with latest as (
  select unit_id as latest_unit_id, max(last_ms) as latest_ms
  from unit_cells
  where not in_period
  group by unit_id
)
select c.unit_id, min(columns('^s_'))
from unit_cells c
join latest l on c.unit_id = l.latest_unit_id and c.last_ms = l.latest_ms
where not c.in_period
group by c.unit_id
