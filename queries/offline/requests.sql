-- grain: one row per request: its unit, its items, those with a score, those that are relevant, and the
-- least score of these
-- reads: model_items (request_id, unit_id, item_id, score, grade)
select
  request_id, min(unit_id) as unit_id, count(*) as items, count(score) as listed,
  max(grade) as largest_grade, min(case when grade > 0 then score end) as least_score,
  cast(sum(case when grade > 0 then 1 else 0 end) as bigint) as relevant,
  cast(sum(case when grade > 0 and score is not null then 1 else 0 end) as bigint) as listed_relevant
from model_items
group by request_id
