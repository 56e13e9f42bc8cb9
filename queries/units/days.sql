-- grain: one row per local day of the period with an impression; new_units are seen first on it
-- reads: unit_day, units
with placed as (
  select d.unit_id, d.day, d.c_1, d.first_ms, d.last_ms
  from unit_day d
  join units u on d.unit_id = u.unit_id
  where d.in_period and d.day is not null
),
firsts as (
  select unit_id, min(day) as day from placed group by unit_id
),
joined as (
  select p.day, p.c_1, p.first_ms, p.last_ms, case when p.day = f.day then 1 else 0 end as is_first
  from placed p
  join firsts f on p.unit_id = f.unit_id
)
select
  cast(day as varchar) as day, count(*) as units, cast(sum(is_first) as bigint) as new_units,
  cast(sum(c_1) as bigint) as impressions, min(first_ms) as first_ms, max(last_ms) as last_ms
from joined
group by day
order by day
