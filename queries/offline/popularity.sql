-- grain: one row per item of the history: how often it was chosen, by how many units, and its place
-- reads: history (unit_id, item_id: one row per choice)
with counted as (
  select item_id, count(*) as interactions, count(distinct unit_id) as users
  from history
  group by item_id
)
select
  item_id, interactions, users,
  row_number() over (order by interactions desc, item_id) as popularity_place
from counted
