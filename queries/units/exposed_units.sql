-- grain: one row per exposed unit, active or not
-- reads: exposed, seen_units, first_variant
select
  e.unit_id, e.first_ms,
  coalesce(e.variant_low, s.variant_low) as variant_low,
  coalesce(e.variant_high, s.variant_high) as variant_high,
  coalesce(e.first_variant, f.first_variant) as first_variant
from exposed e
left join seen_units s on e.unit_id = s.unit_id
left join first_variant f on e.unit_id = f.unit_id
