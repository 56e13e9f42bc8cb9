-- grain: one row per analysed unit: its impressions (x), and those of files that lack a column (y)
-- reads: file_rows (logged_id as text, lacks: 1 or 0; one row per impression), unit_names, units
with counted as (
  select logged_id, cast(count(*) as bigint) as x, cast(sum(lacks) as bigint) as y
  from file_rows
  group by logged_id
)
select u.variant, c.x, c.y
from units u
join unit_names n on u.unit_id = n.unit_id
join counted c on cast(n.logged_id as varchar) = c.logged_id
