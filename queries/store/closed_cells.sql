-- grain: one row per unit and phase: all its days up to the last that is closed
-- reads: unit_day, unit_names, first_variant, units, closing (last_day)
-- variant is that of the first impression in the period; placed is the variant that the unit is
-- analysed in, empty where it is not
with closed as (
  select
    unit_id as closed_unit_id, in_period, min(first_ms) as first_ms, max(last_ms) as last_ms,
    min(first_day) as first_day, cast(sum(c_days) as bigint) as closed_days,
    min(variant_low) as variant_low, max(variant_high) as variant_high,
    cast(sum(columns('^c_[0-9]+$')) as bigint)
  from unit_day
  cross join closing
  where day is null or day <= last_day
  group by unit_id, in_period
)
select
  c.closed_unit_id, n.logged_id as unit_id, coalesce(f.first_variant, c.variant_low) as variant,
  columns('^(in_period|first_ms|last_ms|first_day|closed_days|variant_low|variant_high|c_[0-9]+)$'),
  u.variant as placed
from closed c
join unit_names n on c.closed_unit_id = n.unit_id
left join first_variant f on c.closed_unit_id = f.unit_id
left join units u on c.closed_unit_id = u.unit_id
