-- grain: one row per item shown before the period: its impressions, those of all, items, and items as popular
-- reads: earlier_items (item_id: one row per impression before the period, of all units)
with counted as (
  select item_id, count(*) as impressions
  from earlier_items
  group by item_id
)
select
  item_id, impressions,
  cast(sum(impressions) over () as bigint) as all_impressions,
  count(*) over () as items,
  count(*) over (order by impressions desc range between unbounded preceding and current row) as as_popular
from counted
