-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once; by mean places of ties (Mann and Whitney 1947)
-- reads: scored_sizes (unit_id, n: its rows with a score), ranked_clicks (unit_id, above, share: of
-- places; one row per relevant row)
with placed as (
  select
    c.unit_id, u.n, c.above, cast(round(c.share * u.n) as bigint) as not_below
  from ranked_clicks c
  join scored_sizes u on c.unit_id = u.unit_id
),
summed as (
  select
    unit_id, count(*) as p, cast(sum(2 * n - above - not_below + 1) as bigint) as twice_ranks
  from placed
  group by unit_id
),
equal_scores as (
  select unit_id, above, count(*) as p, min(not_below) - above as rows_of_score
  from placed
  where not_below > above + 1
  group by unit_id, above
),
tied as (
  select unit_id, cast(sum(p * (rows_of_score - p)) as bigint) as tied
  from equal_scores
  group by unit_id
)
select
  u.unit_id, u.n, coalesce(s.p, 0) as p,
  coalesce(s.twice_ranks - s.p * (s.p + 1), 0) as won_halves, coalesce(t.tied, 0) as tied
from scored_sizes u
left join summed s on u.unit_id = s.unit_id
left join tied t on u.unit_id = t.unit_id
