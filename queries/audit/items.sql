-- grain: one row per item of audited lists, with a number
-- reads: audited
with listed as (
  select distinct item_id from audited where item_id is not null
)
select item_id, row_number() over (order by item_id) as number
from listed
