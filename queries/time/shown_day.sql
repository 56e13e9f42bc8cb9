-- grain: one row per item, group of sub-buckets, variant, day and the day before it on which the
-- unit had been shown the item (empty on the first): units, and impressions
-- reads: logged_impressions, units, experiment (item_groups)
-- a unit counts for an item in a window on the first day there, the one whose day before lies before
-- the window
with shown as (
  select item_id, unit_id, day, count(*) as impressions
  from logged_impressions
  where in_period and item_id is not null and day is not null
  group by item_id, unit_id, day
),
ordered as (
  select
    item_id, unit_id, day, impressions,
    lag(day) over (partition by item_id, unit_id order by day) as previous_day
  from shown
)
select
  u.variant, o.item_id, u.sub_bucket % e.item_groups as item_group, o.previous_day, o.day,
  count(*) as units, cast(sum(o.impressions) as bigint) as impressions
from ordered o
join units u on o.unit_id = u.unit_id
cross join experiment e
group by u.variant, o.item_id, u.sub_bucket % e.item_groups, o.previous_day, o.day
