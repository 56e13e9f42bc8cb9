-- grain: one row per traffic, kind of bin, bin and group of units: rows, clicks, summed score
-- reads: traffic_rows (traffic, unit_group, request_id, item_id, score, click), bin_count (bins)
-- width: bins of equal width over [0, 1]; mass: bins of equal counts, ties in the order of the ids of requests and items
with binned as (
  select
    traffic, unit_group, score, click,
    least(cast(floor(score * bins) as bigint), bins - 1) as width_bin,
    row_number() over (
      partition by traffic order by score, request_id, item_id, unit_group, click
    ) - 1 as place,
    count(*) over (partition by traffic) as n,
    bins
  from traffic_rows
  cross join bin_count
),
shared as (
  select
    traffic, unit_group, score, click, width_bin, place, bins,
    n % bins as larger, cast(floor(n / nullif(1.0e0 * bins, 0)) as bigint) as size
  from binned
),
both_kinds as (
  select
    traffic, unit_group, score, click, width_bin,
    -- larger bins come first: the first quotient is the greater in them, the second after them
    cast(greatest(
      floor(place / nullif(1.0e0 * (size + 1), 0)), floor((place - larger) / nullif(1.0e0 * size, 0))
    ) as bigint) as mass_bin
  from shared
)
select
  traffic, 'width' as kind, width_bin as bin, unit_group, count(*) as rows,
  cast(sum(click) as bigint) as clicks,
  cast(sum(cast(round(1e9 * score) as bigint)) as bigint) as predicted
from both_kinds
group by traffic, width_bin, unit_group
union all
select
  traffic, 'mass' as kind, mass_bin as bin, unit_group, count(*) as rows,
  cast(sum(click) as bigint) as clicks,
  cast(sum(cast(round(1e9 * score) as bigint)) as bigint) as predicted
from both_kinds
group by traffic, mass_bin, unit_group
order by traffic, kind, bin, unit_group
