-- grain: one row per category and part of the units: clicks of the variant, and those that control's
--   rows of the same category and scores let expect, with the variance that control's clicks give it
-- reads: agreement_ranked (side, part, position, category, click, learned, b, c), examination (
--   position, seen)
-- A score that has learned a row's click says nothing of it. Clicks of a cell are like a Poisson
-- number: what it lets expect of a row has the variance of its rate times the cell's rows.
with weighed as (
  select
    r.side, r.part, r.category, floor(r.b / 3) as b, floor(r.c / 3) as c,
    r.click, coalesce(e.seen, 1) as seen
  from agreement_ranked r
  left join examination e on r.position = e.position
  where r.category is not null and r.learned = 0
),
cells as (
  select
    category, b, c, cast(sum(case when side = 'control' then click else 0 end) as double) as clicks,
    cast(sum(case when side = 'control' then cast(round(1e6 * seen) as bigint) else 0 end) as double)
      / 1e6 as control_seen,
    cast(sum(case when side = 'control' then 0 else cast(round(1e6 * seen) as bigint) end) as double)
      / 1e6 as variant_seen
  from weighed
  group by category, b, c
  having sum(case when side = 'control' then 1 else 0 end) >= 30
),
rates as (
  select
    category, b, c, clicks / nullif(control_seen, 0) as rate,
    clicks / nullif(control_seen, 0) * variant_seen / nullif(control_seen, 0) as variance
  from cells
)
select
  w.category, w.part, count(*) as impressions, cast(sum(w.click) as bigint) as clicks,
  cast(sum(cast(round(1e6 * w.seen * r.rate) as bigint)) as double) / 1e6 as expected,
  cast(sum(cast(round(1e6 * w.seen * r.variance) as bigint)) as double) / 1e6 as variance
from weighed w
join rates r on w.category = r.category and w.b = r.b and w.c = r.c
where w.side = 'variant'
group by w.category, w.part
