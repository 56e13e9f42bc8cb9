-- grain: one row per unit that was exposed: when first, and to which variants; first_variant is null
-- where the log does not say which was first: times are equal or missing
-- reads: exposures (unit_id, time_ms, variant)
with firsts as (
  select unit_id, min(time_ms) as first_ms, min(variant) as variant_low, max(variant) as variant_high
  from exposures
  group by unit_id
),
seen_first as (
  select
    f.unit_id, f.first_ms, f.variant_low, f.variant_high,
    case
      when f.first_ms is null or e.time_ms is null or e.time_ms = f.first_ms then e.variant
    end as variant
  from firsts f
  join exposures e on f.unit_id = e.unit_id
)
select
  unit_id, first_ms, variant_low, variant_high,
  case when min(variant) = max(variant) then min(variant) end as first_variant
from seen_first
group by unit_id, first_ms, variant_low, variant_high
