-- grain: one row per local day of the period with an impression that is analysed
-- reads: unit_day, units, seen_units
-- units and impressions are those that are analysed; new_units are units whose first day it is; first_ms and last_ms are of all impressions that count, analysed or not
with joined as (
  select
    d.day, d.first_ms, d.last_ms,
    case when u.unit_id is null then 0 else 1 end as is_placed,
    case when u.unit_id is not null and d.day = s.first_day then 1 else 0 end as is_first,
    case when u.unit_id is null then 0 else d.c_1 end as impressions
  from unit_day d
  join seen_units s on d.unit_id = s.unit_id
  left join units u on d.unit_id = u.unit_id
  where d.in_period and d.day is not null
)
select
  cast(day as varchar) as day, cast(sum(is_placed) as bigint) as units,
  cast(sum(is_first) as bigint) as new_units, cast(sum(impressions) as bigint) as impressions,
  min(first_ms) as first_ms, max(last_ms) as last_ms
from joined
group by day
having sum(is_placed) > 0
order by day
