-- grain: one row per request: its unit, when it began, the first and the last of its positions, all of
-- them as bits, how many rows it has, and three sums that tell lists of other items, or another order, apart
-- reads: audited
select
  min(unit_hash) as unit_hash,
  min(time_ms) as time_ms,
  min(position) as first_place,
  max(position) as last_place,
  bit_or(cast(1 as bigint) << cast(position as int)) as places,
  count(*) as shown,
  cast(coalesce(sum(item), 0) as bigint) as items,
  cast(coalesce(sum(item * position), 0) as bigint) as items_placed,
  cast(coalesce(sum(item * position * position), 0) as bigint) as items_twice_placed
from audited
where request_id is not null and position between 0 and 62
group by request_id
