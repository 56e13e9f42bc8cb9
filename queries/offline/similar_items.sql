-- grain: one row per unit and item shown to it, of items with a vector
-- reads: shown_items (unit_id, item_id, click: 1 if the unit clicked the item), vectors
-- (item_id, dimension, value: of vectors of length one)
-- similarity: the largest cosine with an item that the unit clicked, 0 if none is positive
with clicked as (
  select unit_id, item_id from shown_items where click = 1
),
pairs as (
  select distinct s.item_id, c.item_id as clicked_id
  from shown_items s
  join clicked c on s.unit_id = c.unit_id
),
cosines as (
  select
    p.item_id, p.clicked_id,
    cast(sum(cast(round(1e12 * a.value * b.value) as bigint)) as double) / 1e12 as cosine
  from pairs p
  join vectors a on p.item_id = a.item_id
  join vectors b on p.clicked_id = b.item_id and a.dimension = b.dimension
  group by p.item_id, p.clicked_id
)
select
  s.unit_id, s.item_id, greatest(max(k.cosine), 0.0e0) as similarity
from shown_items s
join clicked c on s.unit_id = c.unit_id
join cosines k on s.item_id = k.item_id and c.item_id = k.clicked_id
group by s.unit_id, s.item_id
