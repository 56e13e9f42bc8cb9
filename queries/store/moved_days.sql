-- grain: one row per closed day on which a moved unit has an impression: how its counts change
-- reads: moved_day, seen_units
with signed as (
  select
    d.day, d.c_1, case when d.day = s.first_day then 1 else 0 end as is_first,
    case when d.variant is null then 0 else 1 end - case when d.placed is null then 0 else 1 end as sign
  from moved_day d
  join seen_units s on d.unit_id = s.unit_id
)
select
  cast(day as varchar) as day, cast(sum(sign) as bigint) as units,
  cast(sum(sign * is_first) as bigint) as new_units, cast(sum(sign * c_1) as bigint) as impressions
from signed
group by day
order by day
