-- grain: one row per model: its requests, those with a score, rows, rows without a score, units, and
-- units with a score
-- reads: model_requests (model, unit_id, request_id, items, listed)
select
  model, count(*) as requests,
  cast(sum(case when listed > 0 then 1 else 0 end) as bigint) as listed,
  cast(sum(items) as bigint) as rows, cast(sum(items - listed) as bigint) as unscored,
  count(distinct unit_id) as units,
  count(distinct case when listed > 0 then unit_id end) as scored_units
from model_requests
group by model
order by model
