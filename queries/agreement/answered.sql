-- grain: one row per category and part of the units: clicks of the variant, and those that control's
--   rows of the same category and scores let expect
-- reads: agreement_ranked (side, part, position, category, click, learned, b, c), examination (
--   position, seen)
-- A score that has learned a row's click says nothing of it.
with weighed as (
  select
    r.side, r.part, r.category, floor(r.b / 3) as b, floor(r.c / 3) as c,
    r.click, coalesce(e.seen, 1) as seen
  from agreement_ranked r
  left join examination e on r.position = e.position
  where r.category is not null and r.learned = 0
),
rates as (
  select category, b, c, cast(sum(click) as double)
    / nullif(cast(sum(cast(round(1e6 * seen) as bigint)) as double) / 1e6, 0) as rate
  from weighed
  where side = 'control'
  group by category, b, c
  having count(*) >= 30
)
select
  w.category, w.part, count(*) as impressions, cast(sum(w.click) as bigint) as clicks,
  cast(sum(cast(round(1e6 * w.seen * r.rate) as bigint)) as double) / 1e6 as expected
from weighed w
join rates r on w.category = r.category and w.b = r.b and w.c = r.c
where w.side = 'variant'
group by w.category, w.part
