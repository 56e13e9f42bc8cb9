-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once; by rank sums
-- reads: scored_rows (unit_id, score, click)
-- rows of equal scores have the ranks first … last, whose mean each of them counts as
with ranked as (
  select
    unit_id, click, rank() over by_score as first, count(*) over by_score as last
  from scored_rows
  window by_score as (partition by unit_id order by score)
),
ties as (
  select unit_id, first, max(last) as last, count(*) as p
  from ranked
  where click = 1
  group by unit_id, first
),
relevant as (
  select
    unit_id, sum(p) as p, sum(p * (first + last)) as ranks, sum(p * (last - first + 1 - p)) as tied
  from ties
  group by unit_id
),
units as (
  select unit_id, count(*) as n from scored_rows group by unit_id
)
select
  u.unit_id, u.n, cast(coalesce(r.p, 0) as bigint) as p,
  cast(coalesce(r.ranks - r.p * (r.p + 1), 0) as bigint) as won_halves,
  cast(coalesce(r.tied, 0) as bigint) as tied
from units u
left join relevant r on u.unit_id = r.unit_id
