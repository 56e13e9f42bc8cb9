-- grain: one row per request and relevant item: its place by score, null where it has no score
-- reads: model_items (request_id, unit_id, item_id, score, tie, grade)
-- the same as places, by counting the items above each relevant item: faster if few items are
-- relevant, because the others need no order; (request_id, item_id) must be unique
with relevant as (
  select request_id, unit_id, item_id, score, tie, grade from model_items where grade > 0
),
above as (
  select r.request_id, r.item_id, count(*) as n
  from relevant r
  join model_items o on r.request_id = o.request_id
  where o.score > r.score
    or (o.score = r.score and (o.tie > r.tie or (o.tie is not null and r.tie is null)))
    or (o.score = r.score and o.tie is not distinct from r.tie and o.item_id > r.item_id)
  group by r.request_id, r.item_id
)
select
  r.request_id, r.unit_id, r.grade,
  case when r.score is not null then 1 + coalesce(a.n, 0) end as place
from relevant r
left join above a on r.request_id = a.request_id and r.item_id = a.item_id
