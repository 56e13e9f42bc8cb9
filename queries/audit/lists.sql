-- grain: one row per request: the first and the last of its positions, all of them as bits, and how many
-- it lacks in between
-- reads: audited
select
  request_id,
  min(unit_id) as unit_id,
  min(position) as first_place,
  max(position) as last_place,
  bit_or(cast(1 as bigint) << cast(position as int)) as places,
  max(position) - min(position) + 1 - bit_count(bit_or(cast(1 as bigint) << cast(position as int))) as holes
from audited
where request_id is not null and position between 1 and 62
group by request_id
