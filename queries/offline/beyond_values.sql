-- grain: one row per request and cut-off: novelty, popularity and serendipity of its first items
-- reads: top_items, cutoffs (k), popularity, history_size (interactions, users, items: of the
-- catalogue)
-- an item without history counts as chosen once for novelty, and as the least popular for serendipity
with valued as (
  select
    t.request_id, t.unit_id, t.place,
    log2(nullif(h.interactions, 0) / cast(coalesce(p.interactions, 1) as double)) as self_information,
    log2(nullif(h.users, 0) / cast(coalesce(p.users, 1) as double)) as inverse_users,
    cast(coalesce(p.interactions, 0) as double) as popularity,
    case when t.grade > 0 then
      greatest(
        cast(coalesce(p.popularity_place, h.items + 1) - t.place as double) / nullif(h.items, 0), 0
      )
    else 0 end as surprise
  from top_items t
  left join popularity p on t.item_id = p.item_id
  cross join history_size h
),
summed as (
  select
    v.request_id, min(v.unit_id) as unit_id, c.k, cast(count(*) as double) as n,
    cast(sum(cast(round(1e12 * v.self_information) as bigint)) as double) as self_information,
    cast(sum(cast(round(1e12 * v.inverse_users) as bigint)) as double) as inverse_users,
    cast(sum(v.popularity) as double) as popularity,
    cast(sum(cast(round(1e12 * v.surprise) as bigint)) as double) as surprise
  from valued v
  cross join cutoffs c
  where v.place <= c.k
  group by v.request_id, c.k
)
select
  request_id, unit_id, k, 1.0e0 as v_lists,
  self_information / nullif(1e12 * n, 0) as v_self_information,
  inverse_users / nullif(1e12 * n, 0) as v_miuf,
  popularity / nullif(n, 0) as v_popularity,
  surprise / nullif(1e12 * n, 0) as v_serendipity
from summed
