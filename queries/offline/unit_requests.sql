-- grain: one row per unit: its requests: all, with a relevant item, with a scored item, with both
-- reads: requests (unit_id, listed, relevant)
select
  unit_id, count(*) as requests,
  cast(sum(case when relevant > 0 then 1 else 0 end) as bigint) as relevant,
  cast(sum(case when listed > 0 then 1 else 0 end) as bigint) as listed,
  cast(sum(case when listed > 0 and relevant > 0 then 1 else 0 end) as bigint) as listed_relevant
from requests
group by unit_id
