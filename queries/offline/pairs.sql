-- grain: one row per unit: pairs of a relevant and another row of the unit, and twice the pairs that
-- the score orders correctly, a tie counted once; by rank sums
-- reads: scored_rows (unit_id, score, click)
with levels as (
  select unit_id, score, count(*) as n, sum(click) as p
  from scored_rows
  group by unit_id, score
),
ranked as (
  select
    unit_id, n, p,
    sum(n - p) over (partition by unit_id order by score rows unbounded preceding) as at_or_below
  from levels
)
select
  unit_id, cast(sum(n) as bigint) as n, cast(sum(p) as bigint) as p,
  cast(sum(p * (2 * at_or_below - (n - p))) as bigint) as won_halves,
  cast(sum(p * (n - p)) as bigint) as tied
from ranked
group by unit_id
