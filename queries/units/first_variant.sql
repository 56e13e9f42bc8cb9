-- grain: one row per unit that the log shows in more than one variant: the one it was seen in first
-- reads: seen_units, impressions
select u.unit_id, min(i.variant) as first_variant
from seen_units u
join impressions i on u.unit_id = i.unit_id
where u.variant_low <> u.variant_high and i.in_period and (u.first_ms is null or i.time_ms = u.first_ms)
group by u.unit_id
