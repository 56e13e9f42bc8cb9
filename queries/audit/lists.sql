-- grain: one row per request: its unit, when it began, the first and the last of its positions, all of
-- them as bits, how many rows it has, and three sums that tell lists of other items, or another order, apart
-- reads: audited, audited_items (item_id, number)
select
  min(a.unit_hash) as unit_hash,
  min(a.time_ms) as time_ms,
  min(a.position) as first_place,
  max(a.position) as last_place,
  bit_or(cast(1 as bigint) << cast(a.position as int)) as places,
  count(*) as shown,
  cast(coalesce(sum(i.number), 0) as bigint) as items,
  cast(coalesce(sum(i.number * a.position), 0) as bigint) as items_placed,
  cast(coalesce(sum(i.number * a.position * a.position), 0) as bigint) as items_twice_placed
from audited a
left join audited_items i on a.item_id = i.item_id
where a.request_id is not null and a.position between 0 and 62
group by a.request_id
