-- grain: one row per unit whose first variant the log does not tell: the variant that owns its slot
-- reads: hashed_units, allocation (variant, first_slot, end_slot)
select u.unit_id, a.variant
from hashed_units u
join allocation a on u.slot >= a.first_slot and u.slot < a.end_slot
where u.variant_low <> u.variant_high and u.first_variant is null
