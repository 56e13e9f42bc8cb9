-- grain: one row per entry day, variant in the log and variant by the experiment's rule: units
-- reads: hashed_units, variants (variant), expected_units (unit_id, expected), seen_units
with logged as (
  select unit_id, coalesce(first_variant, variant_low) as variant
  from hashed_units
)
select
  cast(s.first_day as varchar) as day,
  l.variant as logged,
  e.expected,
  count(*) as units
from logged l
join variants v on l.variant = v.variant
join expected_units e on l.unit_id = e.unit_id
left join seen_units s on l.unit_id = s.unit_id
group by s.first_day, l.variant, e.expected
order by s.first_day, l.variant, e.expected
