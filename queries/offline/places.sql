-- grain: one row per request and relevant item: its place by score, null where it has no score
-- reads: model_items (request_id, unit_id, item_id, score, tie, grade)
-- ties may be equal, or none: the larger item is above then
with ranked as (
  select
    request_id, unit_id, grade, score is not null as is_listed,
    row_number() over (
      partition by request_id
      order by score desc nulls last, tie desc nulls last, item_id desc nulls last
    ) as place
  from model_items
)
select request_id, unit_id, grade, case when is_listed then place end as place
from ranked
where grade > 0
