-- grain: one row per request that some models score and others do not
-- reads: model_requests (model, request_id, listed)
select request_id
from model_requests
group by request_id
having min(listed) = 0 and max(listed) > 0
