-- grain: one row per exposed unit: its segments at its first exposure
-- reads: exposures (unit_id, time_ms, s_ columns), exposed, unit_names
select n.unit_id, min(columns('^s_'))
from exposures e
join exposed f on e.unit_id = f.unit_id
join unit_names n on e.unit_id = n.logged_id
where f.first_ms is null or e.time_ms = f.first_ms
group by n.unit_id
