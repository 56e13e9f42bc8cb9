-- grain: one row per item: what the variant shows of it, and what control's rows let expect
-- reads: agreement_ranked (side, item, category, learned, b, c, s), balance (b, s, weight)
-- Rows of the variant weigh what makes the served selection like control's. Among rows with the same
-- two scores, an item has the same share in both variants if both have the same candidates. Weights
-- are whole multiples of 1e-6.
with weighted as (
  select
    r.side, r.item, r.category, floor(r.b / 2) as b, floor(r.c / 2) as c,
    case when r.side = 'variant' then cast(round(1e6 * w.weight) as bigint) else 0 end as weight,
    case when r.side = 'control' then 1 else 0 end as control
  from agreement_ranked r
  join balance w on r.b = w.b and r.s = w.s
  where r.item is not null and r.learned = 0
),
cells as (
  select b, c, cast(sum(weight) as double) / nullif(1e6 * sum(control), 0) as rate
  from weighted
  group by b, c
)
select
  w.item, min(w.category) as category,
  cast(sum(w.control) as bigint) as control, cast(sum(w.weight) as double) / 1e6 as shown,
  cast(sum(cast(round(1e-3 * w.weight * w.weight) as bigint)) as double) / 1e9 as squared,
  cast(sum(cast(round(1e6 * w.control * l.rate) as bigint)) as double) / 1e6 as expected,
  cast(sum(cast(round(1e6 * w.control * l.rate * l.rate) as bigint)) as double) / 1e6
    as expected_squared
from weighted w
join cells l on w.b = l.b and w.c = l.c
where l.rate is not null
group by w.item
