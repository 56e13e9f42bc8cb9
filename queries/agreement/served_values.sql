-- grain: one row per side: how many values served and own scores have, and how well their orders agree
-- reads: agreement_served (side, state, own, served_score)
-- A value of 16 bits has at most 11 that are significant (0 has none); falls are steps at which the
-- served score falls while the own one rises. A cap moves own scores above it to the highest served
-- one, a floor those below it to the lowest; own scores between the two are inside. A place is twice
-- the mean rank, less its mean: a whole number.
with scored as (
  select side, own, served_score as served, count(*) as n
  from agreement_served
  where state = 'plain' and own is not null and served_score is not null
  group by side, own, served_score
),
sides as (
  select side, sum(n) as n, min(served) as lowest, max(served) as highest
  from scored
  group by side
),
ranked as (
  select
    side, own, served, n,
    sum(n) over (partition by side order by own) as own_up_to,
    sum(n) over (partition by side, own) as own_copies,
    sum(n) over (partition by side order by served) as served_up_to,
    sum(n) over (partition by side, served) as served_copies,
    lag(served) over (partition by side order by own, served) as before,
    abs(served) * power(2, 10 - floor(log2(nullif(abs(served), 0)))) as served_bits,
    abs(own) * power(2, 10 - floor(log2(nullif(abs(own), 0)))) as own_bits
  from scored
),
placed as (
  select
    r.side, r.own, r.served, r.n, r.before, s.lowest, s.highest, r.served_bits, r.own_bits,
    r.own_copies, r.served_copies,
    cast(2 * r.own_up_to - r.own_copies - s.n as decimal(38, 0)) as own_place,
    cast(2 * r.served_up_to - r.served_copies - s.n as decimal(38, 0)) as served_place
  from ranked r
  join sides s on r.side = s.side
)
select
  side, cast(sum(n) as bigint) as compared,
  count(distinct own) as own_values, count(distinct served) as served_values,
  cast(max(own_copies) as bigint) as own_most, cast(max(served_copies) as bigint) as served_most,
  cast(sum(case when served < before then 1 else 0 end) as bigint) as falls,
  max(lowest) as lowest, max(highest) as highest,
  cast(sum(case when own < lowest and served = lowest then n else 0 end) as bigint) as floored,
  cast(sum(case when own > highest and served = highest then n else 0 end) as bigint) as capped,
  cast(sum(case when own > lowest and own < highest then n else 0 end) as bigint) as inside,
  cast(sum(case when own > lowest and own < highest and served <> own then n else 0 end) as bigint)
    as moved,
  cast(sum(case when served_bits <> floor(served_bits) then 0 else n end) as bigint) as served_short,
  cast(sum(case when own_bits <> floor(own_bits) then 0 else n end) as bigint) as own_short,
  cast(sum(n * own_place * served_place) as double) as own_served,
  cast(sum(n * own_place * own_place) as double) as own_own,
  cast(sum(n * served_place * served_place) as double) as served_served
from placed
group by side
