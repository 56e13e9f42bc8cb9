-- grain: one row per request with a relevant item, and cut-off: nDCG averaged over every order of
-- items with equal scores, ideal over the list (McSherry and Najork 2008; sklearn's ndcg_score)
-- reads: model_items (request_id, unit_id, score, grade), hits, cutoffs (k), discounts (place, total:
-- the sum of 1 / log2(1 + i) over i up to place)
with tied as (
  select
    request_id, min(unit_id) as unit_id, score, count(*) as n,
    sum(greatest(coalesce(grade, 0.0e0), 0.0e0)) / nullif(cast(count(*) as double), 0) as linear
  from model_items
  where score is not null
  group by request_id, score
),
placed as (
  select
    request_id, unit_id, linear, n,
    sum(n) over (
      partition by request_id order by score desc rows unbounded preceding
    ) as last_place
  from tied
),
gained as (
  select p.request_id, min(p.unit_id) as unit_id, c.k, sum(p.linear * (e.total - b.total)) as dcg
  from placed p
  cross join cutoffs c
  join discounts e on e.place = least(p.last_place, c.k)
  join discounts b on b.place = least(p.last_place - p.n, c.k)
  group by p.request_id, c.k
),
ideals as (
  select h.request_id, c.k,
    sum(case when h.list_ideal <= c.k then h.list_lin else 0 end) / 1e12 as ideal
  from hits h
  cross join cutoffs c
  group by h.request_id, c.k
)
select
  g.request_id, g.unit_id, g.k,
  coalesce(g.dcg / nullif(cast(i.ideal as double), 0), 0) as v_ndcg_lin_ties
from gained g
join ideals i on g.request_id = i.request_id and g.k = i.k
