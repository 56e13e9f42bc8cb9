-- grain: one row per unit: the variant that the log shows it in first
-- reads: hashed_units
select
  unit_id, first_ms, sub_bucket,
  coalesce(first_variant, variant_low) as variant,
  coalesce(variant_low <> variant_high, false) as crossover
from hashed_units
