-- grain: one row per unit whose first variant the log does not tell: the one of the experiment's rule
-- reads: hashed_units, expected_units (unit_id, expected)
select u.unit_id, e.expected as variant
from hashed_units u
join expected_units e on u.unit_id = e.unit_id
where u.variant_low <> u.variant_high and u.first_variant is null
