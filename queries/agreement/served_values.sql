-- grain: one row per side: how many values served and own scores have, and how well their orders agree
-- reads: agreement_served (side, state, own, served_score)
-- A value of 16 bits has at most 11 that are significant; falls are steps at which the served score
-- falls while the own one rises.
with scored as (
  select side, own, served_score as served
  from agreement_served
  where state = 'plain' and own is not null and served_score is not null
),
ranked as (
  select
    side, own, served,
    rank() over (partition by side order by own) as own_rank,
    rank() over (partition by side order by served) as served_rank,
    count(*) over (partition by side, own) as own_copies,
    count(*) over (partition by side, served) as served_copies,
    lag(served) over (partition by side order by own, served) as before,
    case when served = 0 then 0 else abs(served) * power(2, 10 - floor(log2(abs(served)))) end
      as served_bits,
    case when own = 0 then 0 else abs(own) * power(2, 10 - floor(log2(abs(own)))) end as own_bits
  from scored
)
select
  side, count(*) as compared,
  count(distinct own) as own_values, count(distinct served) as served_values,
  max(own_copies) as own_most, max(served_copies) as served_most,
  cast(sum(case when served < before then 1 else 0 end) as bigint) as falls,
  cast(sum(case when served_bits = floor(served_bits) then 1 else 0 end) as bigint) as served_short,
  cast(sum(case when own_bits = floor(own_bits) then 1 else 0 end) as bigint) as own_short,
  corr(own_rank + own_copies / 2.0e0, served_rank + served_copies / 2.0e0) as rank_correlation
from ranked
group by side
