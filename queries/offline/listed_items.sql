-- grain: one row per traffic, cut-off, item and group of units: lists that hold it, and units with
-- such a list; weights are of lists normed to length one, for the cosine of two lists, in multiples
-- of 1e-10, so that the order of adding does not matter
-- reads: top_items, traffic (unit_id, traffic, unit_group), cutoffs (k)
with cut as (
  select u.traffic, u.unit_group, c.k, t.unit_id, t.request_id, t.item_id
  from top_items t
  join traffic u on t.unit_id = u.unit_id
  cross join cutoffs c
  where t.place <= c.k
),
weighted as (
  select
    traffic, unit_group, k, unit_id, request_id, item_id,
    cast(count(*) over (partition by request_id, k) as double) as length
  from cut
)
select
  traffic, k, item_id, unit_group, count(*) as lists, count(distinct unit_id) as units,
  cast(sum(cast(round(1e10 / nullif(sqrt(length), 0)) as bigint)) as double) / 1e10 as weight,
  cast(sum(cast(round(1e10 / nullif(length, 0)) as bigint)) as double) / 1e10 as squared_weight
from weighted
group by traffic, k, item_id, unit_group
order by traffic, k, item_id, unit_group
