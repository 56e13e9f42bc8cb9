-- grain: one row per unit that was exposed: when first, and to which variants
-- reads: exposures (unit_id, time_ms, variant)
with firsts as (
  select unit_id, min(time_ms) as first_ms, min(variant) as variant_low, max(variant) as variant_high
  from exposures
  group by unit_id
)
select
  f.unit_id, f.first_ms, f.variant_low, f.variant_high,
  min(case when f.first_ms is null or e.time_ms = f.first_ms then e.variant end) as first_variant
from firsts f
join exposures e on f.unit_id = e.unit_id
group by f.unit_id, f.first_ms, f.variant_low, f.variant_high
