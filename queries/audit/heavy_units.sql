-- grain: one row per unit with one of the 64 busiest days of its variant
-- reads: unit_day, units
with busiest as (
  select unit_id, max(c_1) as impressions from unit_day where in_period group by unit_id
),
ranked as (
  select
    b.unit_id,
    row_number() over (partition by u.variant order by b.impressions desc, b.unit_id) as place
  from busiest b
  join units u on b.unit_id = u.unit_id
)
select unit_id
from ranked
where place <= 64
