-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once; by mean places of ties (Mann and Whitney 1947)
-- reads: scored_sizes (unit_id, n: its rows with a score), ranked_clicks (unit_id, above, share: of
-- places; one row per relevant row)
with tied as (
  select unit_id, above, min(share) as share, count(*) as p
  from ranked_clicks
  group by unit_id, above
),
placed as (
  select
    t.unit_id, u.n, t.p, t.above, cast(round(t.share * u.n) as bigint) as not_below
  from tied t
  join scored_sizes u on t.unit_id = u.unit_id
),
summed as (
  select
    unit_id, cast(sum(p) as bigint) as p,
    cast(sum(p * (2 * n - above - not_below + 1)) as bigint) as twice_ranks,
    cast(sum(p * (not_below - above - p)) as bigint) as tied
  from placed
  group by unit_id
)
select
  u.unit_id, u.n, coalesce(s.p, 0) as p,
  coalesce(s.twice_ranks - s.p * (s.p + 1), 0) as won_halves, coalesce(s.tied, 0) as tied
from scored_sizes u
left join summed s on u.unit_id = s.unit_id
