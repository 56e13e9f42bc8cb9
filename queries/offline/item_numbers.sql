-- grain: one row per item: its number, ascending with its id, and its place among the ids as text
-- reads: item_ids (item_id)
select
  item_id, row_number() over (order by item_id) as number,
  row_number() over (order by cast(item_id as varchar), item_id) as text_place
from (select distinct item_id from item_ids where item_id is not null) as i
