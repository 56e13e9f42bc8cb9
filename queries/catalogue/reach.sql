-- grain: one row per variant, item and group of sub-buckets: units shown the item, and impressions
-- reads: impressions, units, experiment (item_groups)
with shown as (
  select i.item_id, i.unit_id, count(*) as impressions
  from impressions i
  where i.in_period and i.item_id is not null
  group by i.item_id, i.unit_id
)
select
  u.variant, s.item_id, u.sub_bucket % e.item_groups as item_group,
  count(*) as units, cast(sum(s.impressions) as bigint) as impressions
from shown s
join units u on s.unit_id = u.unit_id
cross join experiment e
group by u.variant, s.item_id, u.sub_bucket % e.item_groups
