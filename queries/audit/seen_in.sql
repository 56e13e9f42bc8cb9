-- grain: one row per lowest, highest and first logged variant of units, and the one of their rule
-- reads: hashed_units (every unit that is present), expected_variant (unit_id, expected)
select
  h.variant_low, h.variant_high, h.first_variant, r.expected, count(*) as units
from hashed_units h
left join expected_variant r on h.unit_id = r.unit_id
group by h.variant_low, h.variant_high, h.first_variant, r.expected
