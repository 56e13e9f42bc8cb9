-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once
-- reads: scored_rows (unit_id, score, click)
-- the same as pairs, pair by pair: faster for units with few relevant rows
with sized as (
  select unit_id, count(*) as n, cast(sum(click) as bigint) as p from scored_rows group by unit_id
),
won as (
  select
    r.unit_id,
    sum(case when r.score > o.score then 2 when r.score = o.score then 1 else 0 end) as won_halves,
    sum(case when r.score = o.score then 1 else 0 end) as tied
  from scored_rows r
  join scored_rows o on r.unit_id = o.unit_id
  where r.click = 1 and o.click = 0
  group by r.unit_id
)
select
  s.unit_id, s.n, s.p,
  cast(coalesce(w.won_halves, 0) as bigint) as won_halves,
  cast(coalesce(w.tied, 0) as bigint) as tied
from sized s
left join won w on s.unit_id = w.unit_id
