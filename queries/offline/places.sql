-- grain: one row per request and item: its place by score, null where it has no score; how many items
-- have larger scores (`above`), and the share of those whose scores are not smaller
-- reads: ranked_items (unit_id, request_id, item_id, score, tie, grade, category)
-- ties may be equal, or none: the larger item is above then. All is read of one sort
select
  request_id, unit_id, item_id, category, grade,
  case when score is not null then row_number() over by_tie end as place,
  rank() over by_score - 1 as above, cume_dist() over by_score as share
from ranked_items
window
  by_score as (partition by request_id order by score desc nulls last),
  by_tie as (
    partition by request_id
    order by score desc nulls last, tie desc nulls last, item_id desc nulls last
  )
