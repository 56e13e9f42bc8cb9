-- grain: one row per request and item among the first by score, down to the largest cut-off
-- reads: model_items (request_id, unit_id, item_id, score, tie, grade, category), deepest (k)
with ranked as (
  select
    request_id, unit_id, item_id, category, grade,
    row_number() over (
      partition by request_id order by score desc, tie desc nulls last, item_id desc nulls last
    ) as place
  from model_items
  where score is not null
)
select r.request_id, r.unit_id, r.item_id, r.category, r.grade, r.place
from ranked r
cross join deepest d
where r.place <= d.k
