-- grain: one row per unit that might be analysed: without a log of exposures, every active unit
-- reads: seen_units, first_variant
select s.unit_id, s.first_ms, s.variant_low, s.variant_high, f.first_variant
from seen_units s
left join first_variant f on s.unit_id = f.unit_id
