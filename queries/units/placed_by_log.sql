-- grain: one row per unit: the variant that the log shows it in first
-- reads: hashed_units, allocation (variant, first_slot, end_slot), crossover_policy (hashes_ties)
-- a unit is tied where the log does not say which of its variants was first: it gets the variant that
-- owns its slot, or none if units are not placed by hash
with seen as (
  select
    unit_id, first_ms, sub_bucket, slot, variant_low, first_variant,
    coalesce(variant_low <> variant_high, false) as crossover
  from hashed_units
),
hashed as (
  select s.unit_id, a.variant
  from seen s
  join allocation a on s.slot >= a.first_slot and s.slot < a.end_slot
  cross join crossover_policy c
  where s.crossover and s.first_variant is null and c.hashes_ties
)
select
  s.unit_id, s.first_ms, s.sub_bucket, s.crossover,
  s.crossover and s.first_variant is null as tied,
  case when s.crossover then coalesce(s.first_variant, h.variant) else s.variant_low end as variant
from seen s
left join hashed h on s.unit_id = h.unit_id
