-- grain: one row per unit: the variant that owns its slot
-- reads: hashed_units, allocation (variant, first_slot, end_slot)
select
  u.unit_id, u.first_ms, u.sub_bucket, a.variant,
  coalesce(u.variant_low <> u.variant_high, false) as crossover,
  false as tied
from hashed_units u
join allocation a on u.slot >= a.first_slot and u.slot < a.end_slot
