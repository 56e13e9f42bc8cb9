-- grain: one row per request and cut-off: the diversity of categories of its first items
-- reads: top_items, cutoffs (k)
-- 1 - sum n_c (n_c - 1) / (n (n - 1)) over categories; items without a category are left out, and
-- lists with fewer than two other items have no value
with categories as (
  select t.request_id, min(t.unit_id) as unit_id, c.k, t.category, cast(count(*) as double) as n
  from top_items t
  cross join cutoffs c
  where t.place <= c.k and t.category is not null
  group by t.request_id, c.k, t.category
),
lists as (
  select request_id, min(unit_id) as unit_id, k, sum(n) as n, sum(n * (n - 1)) as alike
  from categories
  group by request_id, k
)
select
  request_id, unit_id, k,
  case when n >= 2 then 1.0e0 else 0.0e0 end as v_categorised_lists,
  case when n >= 2 then 1 - alike / nullif(n * (n - 1), 0) else 0.0e0 end as v_ild
from lists
