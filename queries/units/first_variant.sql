-- grain: one row per unit that the log shows in more than one variant: the one it was seen in first,
-- null where the log does not say which: times are equal or missing
-- reads: seen_units, unit_cells
select
  u.unit_id,
  case
    when min(c.variant) = max(c.variant) and count(c.variant) = count(*) then min(c.variant)
  end as first_variant
from seen_units u
join unit_cells c on u.unit_id = c.unit_id
where
  u.variant_low <> u.variant_high and c.in_period
  and (u.first_ms is null or c.first_ms is null or c.first_ms = u.first_ms)
group by u.unit_id
