-- grain: one row per unit, phase and day: sums over its served lists with a click
-- reads: metric_rows (position counts from 1)
-- nDCG, MRR and MAP of a list need its clicked rows alone; sums are in multiples of 1e-9, and each
-- term is a whole multiple of 1e-12, so that no order of adding matters
with clicked as (
  select
    unit_id, in_period, day, request_id, position,
    row_number() over (
      partition by unit_id, in_period, request_id order by position
    ) as hit
  from metric_rows
  where click = 1 and request_id is not null and position is not null
),
terms as (
  select
    unit_id, in_period, day, request_id, hit, position,
    cast(round(1e12 / log2(1 + position)) as bigint) as gain,
    cast(round(1e12 / log2(1 + hit)) as bigint) as ideal_gain,
    cast(round(1e12 * hit / nullif(position, 0)) as bigint) as hit_precision
  from clicked
),
lists as (
  select
    unit_id, in_period, min(day) as day, request_id,
    cast(sum(gain) as double) / nullif(cast(sum(ideal_gain) as double), 0) as ndcg,
    1.0e0 / nullif(min(position), 0) as reciprocal_rank,
    cast(sum(hit_precision) as double) / (1e12 * count(*)) as average_precision
  from terms
  group by unit_id, in_period, request_id
)
select
  unit_id, in_period, day,
  count(*) as c_clicked_lists,
  cast(sum(cast(round(1e9 * ndcg) as bigint)) as bigint) as c_ndcg,
  cast(sum(cast(round(1e9 * reciprocal_rank) as bigint)) as bigint) as c_mrr,
  cast(sum(cast(round(1e9 * average_precision) as bigint)) as bigint) as c_map
from lists
group by unit_id, in_period, day
