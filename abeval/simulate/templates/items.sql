-- grain: one row per item
-- reads: chunk, of the catalogue
select item_id, ($categories)[category_code + 1] as category
from chunk
order by item_id
