-- grain: one row per group of units and item: its units that were shown the item, and impressions
-- reads: shown_rows (unit_group, unit_id, item)
with shown as (
  select unit_group, unit_id, item, count(*) as impressions
  from shown_rows
  group by unit_group, unit_id, item
)
select unit_group, item, count(*) as units, cast(sum(impressions) as bigint) as impressions
from shown
group by unit_group, item
