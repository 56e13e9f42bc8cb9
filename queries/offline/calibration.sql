-- grain: one row per traffic, kind of bin, bin and group of units: rows, clicks, summed score
-- reads: traffic_rows (traffic, unit_group, request_id, item_id, score, click), bin_count (bins)
-- width: bins of equal width over [0, 1]; mass: bins of equal counts, ties in the order of the ids of requests and items
with scores as (
  select traffic, score, cast(count(*) as double) as n from traffic_rows group by traffic, score
),
counted as (
  select
    traffic, score, n, sum(n) over (partition by traffic order by score) - n as below,
    sum(n) over (partition by traffic) as total
  from scores
),
shared as (
  select
    c.traffic, c.score, c.n, c.below, c.total % b.bins as larger,
    cast(floor(c.total / nullif(1.0e0 * b.bins, 0)) as bigint) as size
  from counted c
  cross join bin_count b
),
-- larger bins come first: the first quotient is the greater in them, the second after them
edged as (
  select
    traffic, score, below, larger, size,
    greatest(
      floor(below / nullif(1.0e0 * (size + 1), 0)), floor((below - larger) / nullif(1.0e0 * size, 0))
    ) as first_bin,
    greatest(
      floor((below + n - 1) / nullif(1.0e0 * (size + 1), 0)),
      floor((below + n - 1 - larger) / nullif(1.0e0 * size, 0))
    ) as last_bin
  from shared
),
joined as (
  select
    r.traffic, r.unit_group, r.request_id, r.item_id, r.score, r.click,
    e.below, e.larger, e.size, e.first_bin, e.last_bin
  from traffic_rows r
  join edged e on r.traffic = e.traffic and r.score = e.score
),
-- only rows whose equal scores lie in several bins need an order among themselves
divided as (
  select
    traffic, unit_group, score, click, larger, size,
    below - 1 + row_number() over (
      partition by traffic, score order by request_id, item_id, unit_group, click
    ) as place
  from joined
  where first_bin < last_bin
),
both_kinds as (
  select traffic, unit_group, 'mass' as kind, first_bin as bin, score, click
  from joined
  where first_bin = last_bin
  union all
  select
    traffic, unit_group, 'mass' as kind,
    greatest(
      floor(place / nullif(1.0e0 * (size + 1), 0)), floor((place - larger) / nullif(1.0e0 * size, 0))
    ) as bin,
    score, click
  from divided
  union all
  select
    r.traffic, r.unit_group, 'width' as kind, least(floor(r.score * b.bins), b.bins - 1) as bin,
    r.score, r.click
  from traffic_rows r
  cross join bin_count b
)
select
  traffic, kind, cast(bin as bigint) as bin, unit_group, count(*) as rows,
  cast(sum(click) as bigint) as clicks,
  cast(sum(cast(round(1e9 * score) as bigint)) as bigint) as predicted
from both_kinds
group by traffic, kind, bin, unit_group
order by traffic, kind, bin, unit_group
