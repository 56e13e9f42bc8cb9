-- grain: one row per unit: the variant that the experiment's rule gives it; null where it is not in it
-- reads: hashed_units, expected_units (unit_id, expected)
select
  u.unit_id, u.first_ms, u.sub_bucket, e.expected as variant,
  coalesce(u.variant_low <> u.variant_high, false) as crossover,
  false as tied
from hashed_units u
join expected_units e on u.unit_id = e.unit_id
