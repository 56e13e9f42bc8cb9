-- grain: one row per request and item: its place by score, null where it has no score
-- reads: ranked_items (unit_id, request_id, item_id, score, tie, grade, category)
-- ties may be equal, or none: the larger item is above then
select
  request_id, unit_id, item_id, category, grade,
  case when score is not null then row_number() over (
    partition by request_id
    order by score desc nulls last, tie desc nulls last, item_id desc nulls last
  ) end as place
from ranked_items
