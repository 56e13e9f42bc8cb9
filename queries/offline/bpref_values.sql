-- grain: one row per request with a relevant item: binary preference (Buckley and Voorhees 2004)
-- reads: model_items (unit_id, request_id, item_id, score, tie, grade, judged: 1 or 0), cutoffs (k: of
-- the whole list)
-- of each hit, the share of judged items that are not relevant, at most R of them, that are not above it;
-- as trec_eval has it, R of them at most are counted, listed or not
with ranked as (
  select
    request_id, unit_id, grade, score,
    case when judged = 1 and grade <= 0 then 1 else 0 end as is_other,
    sum(case when judged = 1 and grade <= 0 then 1 else 0 end) over (
      partition by request_id
      order by score desc nulls last, tie desc nulls last, item_id desc nulls last
      rows unbounded preceding
    ) as others_above
  from model_items
),
counted as (
  select
    request_id, cast(sum(case when grade > 0 then 1 else 0 end) as double) as relevant,
    cast(sum(is_other) as double) as others
  from ranked
  group by request_id
),
preferred as (
  select
    r.request_id, r.unit_id, c.relevant,
    case when r.grade > 0 and r.score is not null then
      1 - coalesce(
        least(r.others_above, c.relevant) / nullif(least(c.others, c.relevant), 0), 0
      )
    else 0 end as preference
  from ranked r
  join counted c on r.request_id = c.request_id
  where c.relevant > 0
)
select
  p.request_id, min(p.unit_id) as unit_id, k.k,
  cast(sum(cast(round(1e12 * p.preference) as bigint)) as double)
    / nullif(1e12 * min(p.relevant), 0) as v_bpref
from preferred p
cross join cutoffs k
group by p.request_id, k.k
