-- grain: one row per traffic, cut-off, item and group of units: lists that hold it, and units with
-- such a list; weights are of lists normed to length one, for the cosine of two lists, in multiples
-- of 1e-10, summed as whole numbers, so that the order of adding does not matter
-- reads: top_items, requests (request_id, listed), traffic (unit_id, traffic, unit_group), cutoffs (k)
with held as (
  select
    c.k, t.unit_id, t.item_id, count(*) as lists,
    sum(round(1e10 / nullif(sqrt(least(c.k, r.listed)), 0))) as weight,
    sum(round(1e10 / nullif(cast(least(c.k, r.listed) as double), 0))) as squared_weight
  from top_items t
  join requests r on t.request_id = r.request_id
  cross join cutoffs c
  where t.place <= c.k
  group by c.k, t.unit_id, t.item_id
)
select
  u.traffic, h.k, h.item_id, u.unit_group, sum(cast(h.lists as double)) as lists, count(*) as units,
  sum(h.weight) / 1e10 as weight, sum(h.squared_weight) / 1e10 as squared_weight
from held h
join traffic u on h.unit_id = u.unit_id
group by u.traffic, h.k, h.item_id, u.unit_group
order by u.traffic, h.k, h.item_id, u.unit_group
