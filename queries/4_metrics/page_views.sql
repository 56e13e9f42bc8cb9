-- grain: one row per unit, phase and day: distinct requests, on the day of their first impression
-- reads: metric_rows
with requests as (
  select unit_id, in_period, request_id, min(day) as day
  from metric_rows
  where request_id is not null
  group by unit_id, in_period, request_id
)
select unit_id, in_period, day, count(*) as c_page_views
from requests
group by unit_id, in_period, day
