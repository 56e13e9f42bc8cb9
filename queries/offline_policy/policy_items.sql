-- grain: one row per item of the log or of the policy: its number from 0
-- reads: served, policy
with items as (
  select item_id from served where item_id is not null
  union
  select item_id from policy
)
select item_id, row_number() over (order by item_id) - 1 as item_no
from items
