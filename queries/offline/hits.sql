-- grain: one row per request and relevant item: its terms of every ranking metric, as multiples of
-- 1e-12, so that the order of adding does not matter
-- reads: places (request_id, unit_id, place, grade)
-- exponential gains stop at 2^20; metrics of larger relevance are refused
-- an item without a place is never a hit; it only counts in the ideal over all relevant items, after
-- the hits, so that `hit` numbers binary gains in their best order too
with numbered as (
  select
    request_id, unit_id, place, grade, pow(2.0e0, least(grade, 20)) - 1 as burges,
    case when place is null then 0 else 1 end as listed,
    count(*) over (partition by request_id) as relevant,
    row_number() over (partition by request_id order by place nulls last) as hit,
    row_number() over (partition by request_id order by grade desc) as ideal,
    row_number() over (
      partition by request_id order by case when place is null then 0.0e0 else grade end desc
    ) as list_ideal
  from places
  where grade > 0
)
select
  request_id, unit_id, place, relevant, hit, ideal, list_ideal, grade,
  cast(round(1e12 * hit / nullif(place, 0)) as bigint) as precision_here,
  cast(round(1e12 / nullif(place, 0)) as bigint) as reciprocal,
  cast(round(1e12 * grade) as bigint) as gain,
  cast(round(1e12 / nullif(log2(1 + place), 0)) as bigint) as dcg_bin,
  cast(round(1e12 * grade / nullif(log2(1 + place), 0)) as bigint) as dcg_lin,
  cast(round(1e12 * burges / nullif(log2(1 + place), 0)) as bigint) as dcg_exp,
  cast(round(1e12 / nullif(log2(1 + hit), 0)) as bigint) as ideal_bin,
  cast(round(1e12 * grade / nullif(log2(1 + ideal), 0)) as bigint) as ideal_lin,
  cast(round(1e12 * burges / nullif(log2(1 + ideal), 0)) as bigint) as ideal_exp,
  cast(round(1e12 * listed / nullif(log2(1 + hit), 0)) as bigint) as list_bin,
  cast(round(1e12 * listed * grade / nullif(log2(1 + list_ideal), 0)) as bigint) as list_lin,
  cast(round(1e12 * listed * burges / nullif(log2(1 + list_ideal), 0)) as bigint) as list_exp
from numbered
