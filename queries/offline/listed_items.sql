-- grain: one row per traffic, cut-off, item and group of units: lists that hold it, and units with
-- such a list; weights are of lists normed to length one, for the cosine of two lists, in multiples
-- of 1e-10, summed as whole numbers, so that the order of adding does not matter
-- reads: top_items, requests (request_id, listed), traffic (unit_id, traffic, unit_group), cutoffs (k)
-- a unit counts with its best place of an item: at every cut-off that has one, this is among them
with held as (
  select
    u.traffic, u.unit_group, t.item_id, t.place, r.listed,
    row_number() over (partition by t.unit_id, t.item_id order by t.place) as number
  from top_items t
  join requests r on t.request_id = r.request_id
  join traffic u on t.unit_id = u.unit_id
)
select
  h.traffic, c.k, h.item_id, h.unit_group, cast(count(*) as double) as lists,
  count(case when h.number = 1 then 1 end) as units,
  sum(round(1e10 / nullif(sqrt(least(c.k, h.listed)), 0))) / 1e10 as weight,
  sum(round(1e10 / nullif(cast(least(c.k, h.listed) as double), 0))) / 1e10 as squared_weight
from held h
cross join cutoffs c
where h.place <= c.k
group by h.traffic, c.k, h.item_id, h.unit_group
order by h.traffic, c.k, h.item_id, h.unit_group
