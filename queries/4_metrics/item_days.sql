-- grain: one row per group of units, item, day, and the day before on which units were shown the item
-- reads: shown_rows (unit_group, unit_id, item, day)
-- of any days in a row, those units count whose day before is not among them, so that each counts once
with shown as (
  select unit_group, unit_id, item, day, count(*) as impressions
  from shown_rows
  where day is not null
  group by unit_group, unit_id, item, day
),
dated as (
  select
    unit_group, item, day, impressions,
    lag(day) over (partition by unit_id, item order by day) as day_before
  from shown
)
select
  unit_group, item, day, day_before,
  count(*) as units, cast(sum(impressions) as bigint) as impressions
from dated
group by unit_group, item, day, day_before
