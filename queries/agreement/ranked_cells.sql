-- grain: one row per side, part of the units, ranks of the scores, and whether the row was learned:
--   rows, clicks, and what they weigh
-- reads: agreement_ranked (side, part, position, click, learned, item, category, b, c, s), supplies (
--   item, ratio), examination (position, seen), responses (category, factor)
-- A click weighs more where rows are seen less (seen) and where clicks of the variant are lost
-- (factor). An item that the variant gets less often than control (ratio) weighs more in its rows;
-- one that it hardly gets is lacked. All weights are whole multiples of 1e-6.
with joined as (
  select
    r.side, r.part, r.b, r.c, r.s, r.learned, r.click, coalesce(e.seen, 1e0) as seen,
    r.click * (case when r.side = 'variant' then coalesce(f.factor, 1e0) else 1e0 end) as kept,
    case when coalesce(g.ratio, 1e0) < 0.2e0 then 1 else 0 end as lacked,
    case when r.side = 'variant' then 1e0 / nullif(greatest(coalesce(g.ratio, 1e0), 0.2e0), 0) else 1e0 end
      as weight
  from agreement_ranked r
  left join examination e on r.position = e.position
  left join responses f on r.category = f.category
  left join supplies g on r.item = g.item
),
weighted as (
  select
    side, part, b, c, s, learned, click, lacked,
    cast(round(1e6 * seen) as bigint) as seen, cast(round(1e6 * kept) as bigint) as kept,
    cast(round(1e6 * kept / nullif(seen, 0)) as bigint) as relevance,
    cast(round(1e6 * weight) as bigint) as weight,
    cast(round(1e6 * weight * kept / nullif(seen, 0)) as bigint) as weighted_relevance
  from joined
)
select
  side, part, learned, b, c, s, count(*) as impressions, cast(sum(click) as bigint) as clicks,
  cast(sum(seen) as double) / 1e6 as seen, cast(sum(kept) as double) / 1e6 as kept,
  cast(sum(relevance) as double) / 1e6 as relevance,
  cast(sum(case when lacked = 1 then 0 else weight end) as double) / 1e6 as items,
  cast(sum(case when lacked = 1 then 0 else weighted_relevance end) as double) / 1e6
    as items_relevance
from weighted
group by side, part, learned, b, c, s
