-- grain: one row per exposed unit as logged: its segments at its first exposure
-- reads: exposures (unit_id, time_ms, s_ columns), exposed
select e.unit_id, coalesce(min(columns('^s_')), '')
from exposures e
join exposed f on e.unit_id = f.unit_id
where f.first_ms is null or e.time_ms = f.first_ms
group by e.unit_id
