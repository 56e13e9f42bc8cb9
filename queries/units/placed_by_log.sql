-- grain: one row per unit: the variant that the log shows it in first
-- reads: hashed_units, tie_variants (unit_id, variant: those of units whose first variant is unknown)
-- a unit is tied where the log does not say which of its variants was first
with seen as (
  select
    unit_id, first_ms, sub_bucket, variant_low, first_variant,
    coalesce(variant_low <> variant_high, false) as crossover
  from hashed_units
)
select
  s.unit_id, s.first_ms, s.sub_bucket, s.crossover,
  s.crossover and s.first_variant is null as tied,
  case when s.crossover then coalesce(s.first_variant, t.variant) else s.variant_low end as variant
from seen s
left join tie_variants t on s.unit_id = t.unit_id
