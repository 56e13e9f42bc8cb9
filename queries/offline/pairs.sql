-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once; by places (Mann and Whitney 1947)
-- reads: scored_rows (unit_id, score, click)
-- among equal scores, rows that are not relevant come first: each relevant one is above those that it
-- is tied with; half of their number is subtracted, so that a tie counts 1/2
with ranked as (
  select
    unit_id, click,
    row_number() over by_both as place,
    rank() over by_both - rank() over by_score as tied
  from scored_rows
  window
    by_score as (partition by unit_id order by score),
    by_both as (partition by unit_id order by score, click)
),
summed as (
  select
    unit_id, count(*) as n, sum(click) as p,
    sum(case when click = 1 then 2 * place - tied else 0 end) as twice_ranks,
    sum(case when click = 1 then tied else 0 end) as tied
  from ranked
  group by unit_id
)
select
  unit_id, n, cast(p as bigint) as p,
  cast(twice_ranks - p * (p + 1) as bigint) as won_halves, cast(tied as bigint) as tied
from summed
