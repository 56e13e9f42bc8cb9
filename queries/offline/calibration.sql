-- grain: one row per traffic, kind of bin, bin and group of units: rows, clicks, summed score
-- reads: traffic_rows (traffic, unit_group, request_id, item_id, score, click), bin_count (bins)
-- width: bins of equal width over [0, 1]; mass: bins of equal counts, ties in the order of the ids of requests and items
with placed as (
  select
    traffic, unit_group, score, click,
    row_number() over (partition by traffic order by score, request_id, item_id, click) - 1 as place,
    count(*) over (partition by traffic) as total
  from traffic_rows
),
shared as (
  select
    p.traffic, p.unit_group, p.score, p.click, p.place, b.bins, p.total % b.bins as larger,
    floor(p.total / nullif(1.0e0 * b.bins, 0)) as size
  from placed p
  cross join bin_count b
),
-- larger bins come first: the first quotient is the greater in them, the second after them
binned as (
  select
    traffic, unit_group, click, cast(round(1e9 * score) as bigint) as predicted,
    greatest(
      floor(place / nullif(size + 1, 0)), floor((place - larger) / nullif(size, 0))
    ) as mass_bin,
    least(floor(score * bins), bins - 1) as width_bin
  from shared
),
summed as (
  select
    traffic, unit_group, mass_bin, width_bin, count(*) as rows, sum(click) as clicks,
    sum(predicted) as predicted
  from binned
  group by traffic, unit_group, mass_bin, width_bin
),
both_kinds as (
  select traffic, unit_group, 'mass' as kind, mass_bin as bin, rows, clicks, predicted from summed
  union all
  select traffic, unit_group, 'width' as kind, width_bin as bin, rows, clicks, predicted from summed
)
select
  traffic, kind, cast(bin as bigint) as bin, unit_group, cast(sum(rows) as bigint) as rows,
  cast(sum(clicks) as bigint) as clicks, cast(sum(predicted) as bigint) as predicted
from both_kinds
group by traffic, kind, bin, unit_group
order by traffic, kind, bin, unit_group
