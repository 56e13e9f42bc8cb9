-- grain: one row per request: its unit, its items, those with a score, and those that are relevant
-- reads: model_items (request_id, unit_id, item_id, score, grade)
select
  request_id, min(unit_id) as unit_id, count(*) as items, count(score) as listed,
  max(grade) as largest_grade,
  cast(sum(case when grade > 0 then 1 else 0 end) as bigint) as relevant,
  cast(sum(case when grade > 0 and score is not null then 1 else 0 end) as bigint) as listed_relevant
from model_items
group by request_id
