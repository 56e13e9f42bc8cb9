-- grain: one row per unit that might be analysed, with the reason where it is not
-- reads: placed_units (unit_id, first_ms, variant, crossover, sub_bucket), variants (variant), crossover_policy
select
  p.unit_id, p.first_ms, p.variant, p.crossover, p.sub_bucket,
  case
    when v.variant is null then 'no_variant'
    when p.crossover and c.excludes then 'crossover'
  end as set_aside
from placed_units p
left join variants v on p.variant = v.variant
cross join crossover_policy c
