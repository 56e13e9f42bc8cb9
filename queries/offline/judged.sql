-- grain: one row per request and item that is listed or relevant, of the requests of a ground truth
-- reads: listed_rows (request_id, item_id, score, place: the row's number in the list), truth_rows
-- (unit_id, request_id, item_id, grade)
-- an item listed twice keeps its best score and first place; an item judged twice its highest grade
with listed as (
  select request_id, item_id, max(score) as score, min(place) as place
  from listed_rows
  group by request_id, item_id
),
truth as (
  select request_id, item_id, max(grade) as grade from truth_rows group by request_id, item_id
),
requests as (
  select request_id, min(unit_id) as unit_id from truth_rows group by request_id
),
together as (
  select
    coalesce(l.request_id, t.request_id) as request_id, coalesce(l.item_id, t.item_id) as item_id,
    l.score, l.place, coalesce(t.grade, 0.0e0) as grade
  from listed l
  full outer join truth t on l.request_id = t.request_id and l.item_id = t.item_id
)
select
  r.unit_id, r.request_id, t.item_id,
  t.score, t.place, greatest(t.grade, 0.0e0) as grade
from together t
join requests r on t.request_id = r.request_id
where t.item_id is not null
