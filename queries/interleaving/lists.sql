-- grain: one row: lists, by what is wrong with them
-- reads: interleaved (unit_id, request_id, position, item_id)
with lists as (
  select
    unit_id, request_id, count(*) as places, count(item_id) as items,
    count(distinct item_id) as different, min(position) as first, max(position) as last,
    count(distinct position) as positions
  from interleaved
  group by unit_id, request_id
)
select
  count(*) as lists,
  cast(sum(places) as bigint) as places,
  cast(sum(case when items > different then 1 else 0 end) as bigint) as repeats,
  cast(sum(case when first = 1 and last = places and positions = places then 0 else 1 end) as bigint)
    as holes
from lists
