-- grain: one row per request with a relevant item: the precision at as many places as are relevant
-- reads: hits (request_id, unit_id, place)
with sized as (
  select request_id, unit_id, place, count(*) over (partition by request_id) as relevant from hits
)
select
  request_id, min(unit_id) as unit_id,
  sum(case when place <= relevant then 1.0e0 else 0.0e0 end) / nullif(count(*), 0) as v_rprec
from sized
group by request_id
