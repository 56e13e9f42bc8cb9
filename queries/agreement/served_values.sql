-- grain: one row per side: how many values served and own scores have, and how well their orders agree
-- reads: agreement_served (side, state, own, served_score)
-- A value of 16 bits has at most 11 that are significant (0 has none); falls are steps at which the
-- served score falls while the own one rises. A cap moves own scores above it to the highest served
-- one, a floor those below it to the lowest; own scores between the two are inside. A place is twice
-- the mean rank, less its mean: a whole number.
with scored as (
  select side, own, served_score as served
  from agreement_served
  where state = 'plain' and own is not null and served_score is not null
),
sides as (
  select side, count(*) as n, min(served) as lowest, max(served) as highest
  from scored
  group by side
),
ranked as (
  select
    side, own, served,
    rank() over owns as own_rank, count(*) over owns as own_up_to,
    rank() over serveds as served_rank, count(*) over serveds as served_up_to,
    lag(served) over (partition by side order by own, served) as before,
    abs(served) * power(2, 10 - floor(log2(nullif(abs(served), 0)))) as served_bits,
    abs(own) * power(2, 10 - floor(log2(nullif(abs(own), 0)))) as own_bits
  from scored
  window
    owns as (partition by side order by own),
    serveds as (partition by side order by served)
),
placed as (
  select
    r.side, r.own, r.served, r.before, s.lowest, s.highest, r.served_bits, r.own_bits,
    r.own_up_to - r.own_rank + 1 as own_copies,
    r.served_up_to - r.served_rank + 1 as served_copies,
    cast(r.own_rank + r.own_up_to - s.n - 1 as decimal(38, 0)) as own_place,
    cast(r.served_rank + r.served_up_to - s.n - 1 as decimal(38, 0)) as served_place
  from ranked r
  join sides s on r.side = s.side
)
select
  side, count(*) as compared,
  count(distinct own) as own_values, count(distinct served) as served_values,
  max(own_copies) as own_most, max(served_copies) as served_most,
  cast(sum(case when served < before then 1 else 0 end) as bigint) as falls,
  max(lowest) as lowest, max(highest) as highest,
  cast(sum(case when own < lowest and served = lowest then 1 else 0 end) as bigint) as floored,
  cast(sum(case when own > highest and served = highest then 1 else 0 end) as bigint) as capped,
  cast(sum(case when own > lowest and own < highest then 1 else 0 end) as bigint) as inside,
  cast(sum(case when own > lowest and own < highest and served <> own then 1 else 0 end) as bigint)
    as moved,
  cast(sum(case when served_bits <> floor(served_bits) then 0 else 1 end) as bigint) as served_short,
  cast(sum(case when own_bits <> floor(own_bits) then 0 else 1 end) as bigint) as own_short,
  cast(sum(own_place * served_place) as double) as own_served,
  cast(sum(own_place * own_place) as double) as own_own,
  cast(sum(served_place * served_place) as double) as served_served
from placed
group by side
