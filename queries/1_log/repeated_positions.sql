-- grain: one row per request with a position that occurs twice; no other can have a duplicate
-- reads: positioned_impressions (request_id, position from 0 to 62, neither null)
select request_id
from positioned_impressions
group by request_id
having bit_count(bit_or(cast(1 as bigint) << cast(floor(position) as int))) < count(*)
