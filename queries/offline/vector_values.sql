-- grain: one row per request and cut-off: the diversity of vectors of its first items
-- reads: top_items, cutoffs (k), item_dimensions (item_id, dimension, value: of vectors of length one)
-- one minus the mean cosine of two items: the squared sums of each dimension contain every pair; items
-- without a vector are left out, and lists with fewer than two other items have no value
with dimensions as (
  select
    t.request_id, min(t.unit_id) as unit_id, c.k, d.dimension, cast(count(*) as double) as n,
    cast(sum(cast(round(1e9 * d.value) as bigint)) as double) / 1e9 as value
  from top_items t
  join item_dimensions d on t.item_id = d.item_id
  cross join cutoffs c
  where t.place <= c.k
  group by t.request_id, c.k, d.dimension
),
lists as (
  select
    request_id, min(unit_id) as unit_id, k, max(n) as n,
    cast(sum(cast(round(1e12 * value * value) as bigint)) as double) / 1e12 as squared
  from dimensions
  group by request_id, k
)
select
  request_id, unit_id, k,
  case when n >= 2 then 1.0e0 else 0.0e0 end as v_vector_lists,
  case when n >= 2 then 1 - (squared - n) / nullif(n * (n - 1), 0) else 0.0e0 end as v_ild_vectors
from lists
