-- grain: one row per request and item that is listed or relevant, of the requests of a ground truth
-- reads: listed_rows (request_id, item_id, score, tie), replay_rows (unit_id, request_id, item_id, grade)
-- both have each item once per request; an item without a grade is one that nobody judged.
-- A grade below zero stays: it is a rating, and metrics of gains read grades above zero alone
with requests as (
  select request_id, min(unit_id) as unit_id from replay_rows group by request_id
),
together as (
  select
    coalesce(l.request_id, t.request_id) as request_id, coalesce(l.item_id, t.item_id) as item_id,
    l.score, l.tie, coalesce(t.grade, 0.0e0) as grade,
    case when t.grade is null then 0 else 1 end as judged
  from listed_rows l
  full outer join replay_rows t on l.request_id = t.request_id and l.item_id = t.item_id
)
select
  r.unit_id, r.request_id, t.item_id, t.score, t.tie, t.grade, t.judged
from together t
join requests r on t.request_id = r.request_id
where t.item_id is not null
