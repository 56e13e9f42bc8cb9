-- grain: one row per unit that might be analysed, with the reason where it is not
-- reads: placed_units, variants (variant), crossover_policy (excludes)
select
  p.unit_id, p.first_ms, p.variant, p.crossover, p.tied, p.sub_bucket,
  case
    when p.crossover and c.excludes then 'crossover'
    when p.tied and p.variant is null then 'tied_crossover'
    when v.variant is null then 'no_variant'
  end as set_aside
from placed_units p
left join variants v on p.variant = v.variant
cross join crossover_policy c
