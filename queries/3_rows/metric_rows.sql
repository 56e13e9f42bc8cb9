-- grain: one row per impression that counts of an analysed unit, in the period and before it; day is counted from 1970
-- reads: analysed_rows
select unit_id, in_period, day, time_ms, request_id, item as item_id, position, click, category
from analysed_rows
