-- grain: one row per variant and group of sub-buckets: its analysed units
-- reads: units, experiment (item_groups)
select u.variant, u.sub_bucket % e.item_groups as item_group, count(*) as units
from units u
cross join experiment e
group by u.variant, u.sub_bucket % e.item_groups
order by variant, item_group
