-- grain: one row per unit and phase: all its days up to the last closed one
-- reads: unit_day, unit_names, first_variant, units, nameless_units, closed_segments, closing (last_day)
-- variant and segments are those of the first impression in the period (the variant is null where that
-- is unknown); placed is the variant that the unit is analysed in, null if it is not analysed
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
),
placed as (
  select unit_id as placed_unit_id, variant as placed from units
)
select
  cast(null as date) as day, cast(null as varchar) as set_aside, n.logged_id as unit_id,
  case
    when m.nameless_unit_id is null
      then coalesce(f.first_variant, case when c.variant_low = c.variant_high then c.variant_low end)
  end as variant,
  columns('^(in_period|first_ms|last_ms|first_day|closed_days|variant_low|variant_high|placed|s_.*|c_[0-9]+)$')
from closed c
join unit_names n on c.closed_unit_id = n.unit_id
left join first_variant f on c.closed_unit_id = f.unit_id
left join nameless_units m on c.closed_unit_id = m.nameless_unit_id
left join closed_segments s on c.closed_unit_id = s.segmented_unit_id
left join placed p on c.closed_unit_id = p.placed_unit_id
