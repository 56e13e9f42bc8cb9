-- grain: one row per exposed unit, active or not: its variants as the exposures name them, else as the impressions do
-- reads: exposed, shown
with every as (
  select 1 as is_exposed, unit_id, first_ms, variant_low, variant_high, first_variant from exposed
  union all
  select 0 as is_exposed, unit_id, cast(null as bigint) as first_ms, variant_low, variant_high, first_variant from shown
),
named as (
  select
    is_exposed, unit_id, variant_low, variant_high, first_variant,
    max(first_ms) over (partition by unit_id) as first_ms,
    max(is_exposed) over (partition by unit_id) as is_of_experiment,
    max(case when is_exposed = 1 and variant_low is not null then 1 else 0 end)
      over (partition by unit_id) as has_name
  from every
)
select
  unit_id, max(first_ms) as first_ms, max(variant_low) as variant_low, max(variant_high) as variant_high,
  max(first_variant) as first_variant
from named
where is_of_experiment = 1 and is_exposed = has_name
group by unit_id
