-- grain: one row: lists, by what is wrong with them, and impressions that count for none
-- reads: interleaved (unit_id, request_id, position, item_id, team, alike)
with lists as (
  select
    unit_id, request_id, count(*) as places, count(item_id) as items,
    count(distinct item_id) as different, min(position) as first, max(position) as last,
    count(distinct position) as positions, count(case when alike then 1 end) as alike,
    count(case when team is null and not alike then 1 end) as teamless
  from interleaved
  group by unit_id, request_id
)
select
  count(*) as lists,
  cast(sum(places) as bigint) as shown,
  count(case when items > different then 1 end) as repeats,
  count(case when first <> 1 or last <> places or positions <> places then 1 end) as holes,
  cast(sum(alike) as bigint) as alike,
  cast(sum(teamless) as bigint) as teamless
from lists
