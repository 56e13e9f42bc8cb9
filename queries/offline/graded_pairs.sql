-- grain: one row per unit: numerators and denominators of FCP: pairs of rows of different relevance,
-- those that the score orders correctly, with and without half of the ties, and those without a tie
-- reads: scored_rows (unit_id, score, grade), bits (half: 1, 2, 4, … below the number of levels)
-- two levels of relevance have a highest binary digit in which they differ: at each digit the rows
-- form branches of two classes, whose pairs are counted by rank sums, without listing any pair
with levels as (
  select
    unit_id, score,
    dense_rank() over (partition by unit_id order by grade) - 1 as level
  from scored_rows
),
halved as (
  select
    l.unit_id, b.half, l.score,
    floor(l.level / nullif(2.0e0 * b.half, 0)) as branch,
    cast(floor(l.level / nullif(1.0e0 * b.half, 0)) as bigint) % 2 as upper_half
  from levels l
  cross join bits b
),
grouped as (
  select unit_id, half, branch, score, count(*) as n, sum(upper_half) as p
  from halved
  group by unit_id, half, branch, score
),
ranked as (
  select
    unit_id, half, branch, n, p,
    sum(n - p) over (
      partition by unit_id, half, branch order by score rows unbounded preceding
    ) as at_or_below
  from grouped
),
branches as (
  select
    unit_id, half, branch, sum(p) * sum(n - p) as pairs,
    sum(p * (2 * at_or_below - (n - p))) as won_halves, sum(p * (n - p)) as tied
  from ranked
  group by unit_id, half, branch
)
select
  unit_id, cast(sum(pairs) as bigint) as graded, cast(sum(won_halves) as double) / 2 as won_graded,
  cast(sum(won_halves - tied) as double) / 2 as concordant,
  cast(sum(pairs - tied) as bigint) as ordered
from branches
group by unit_id
