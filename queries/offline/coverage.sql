-- grain: one row per model: its requests, those with a score, rows, and rows without a score
-- reads: model_requests (model, request_id, items, listed)
select
  model, count(*) as requests,
  cast(sum(case when listed > 0 then 1 else 0 end) as bigint) as listed,
  cast(sum(items) as bigint) as rows, cast(sum(items - listed) as bigint) as unscored
from model_requests
group by model
order by model
