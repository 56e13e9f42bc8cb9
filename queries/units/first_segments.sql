-- grain: one row per unit: its segments at its first impression in the period
-- reads: seen_units, impressions (s_ columns)
select i.unit_id, min(columns('^s_'))
from impressions i
join seen_units u on i.unit_id = u.unit_id
where i.in_period and (u.first_ms is null or i.time_ms = u.first_ms)
group by i.unit_id
