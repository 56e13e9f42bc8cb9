-- grain: one row per impression of the period with an item
-- reads: analysed_rows (a unit_group is a variant and one of 64 parts of its units; item is an id, or a number of item_names)
select unit_group, unit_id, item, day
from analysed_rows
where in_period and item is not null
