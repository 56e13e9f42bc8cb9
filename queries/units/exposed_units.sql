-- grain: one row per exposed unit, active or not
-- reads: exposed, unit_names, seen_units, first_variant
-- the log of exposures names the variants, or else the impressions do
select
  n.unit_id, e.first_ms,
  coalesce(e.variant_low, s.variant_low) as variant_low,
  coalesce(e.variant_high, s.variant_high) as variant_high,
  case when e.variant_low is null then f.first_variant else e.first_variant end as first_variant
from exposed e
join unit_names n on e.unit_id = n.logged_id
left join seen_units s on n.unit_id = s.unit_id
left join first_variant f on n.unit_id = f.unit_id
