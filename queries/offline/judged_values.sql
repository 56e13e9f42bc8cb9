-- grain: one row per request with a list, and cut-off: the share of its first items that are judged
-- reads: every_item (unit_id, request_id, item_id, score, tie, judged: 1 or 0), cutoffs (k)
-- of a list shorter than k, the share of all its items
with ranked as (
  select
    request_id, unit_id, judged,
    row_number() over (
      partition by request_id
      order by score desc nulls last, tie desc nulls last, item_id desc nulls last
    ) as place
  from every_item
  where score is not null
)
select
  r.request_id, min(r.unit_id) as unit_id, c.k, 1.0e0 as v_lists,
  sum(r.judged) / nullif(cast(count(*) as double), 0) as v_judged
from ranked r
cross join cutoffs c
where r.place <= c.k
group by r.request_id, c.k
