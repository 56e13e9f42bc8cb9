-- grain: one row per request with a relevant item, and cut-off: metrics of a reader who goes down the list
-- reads: hits (request_id, unit_id, place, grade), largest (grade: the largest of all), cutoffs (k)
-- expected reciprocal rank (Chapelle et al. 2009): the reader stops at an item with (2^g - 1) / 2^largest;
-- relevance stops at 20, as in hits; ERR of a larger one is refused
-- rank-biased precision (Moffat and Zobel 2008): the reader goes on with p, whatever was seen
with stops as (
  select
    h.request_id, h.unit_id, h.place,
    (pow(2.0e0, least(h.grade, 20)) - 1) / nullif(pow(2.0e0, least(l.grade, 20)), 0) as stop
  from hits h
  cross join largest l
),
reached as (
  select
    request_id, unit_id, place, stop,
    exp(coalesce(sum(ln(1 - stop)) over (
      partition by request_id order by place nulls last
      rows between unbounded preceding and 1 preceding
    ), 0)) as reach
  from stops
),
terms as (
  select
    request_id, unit_id, place,
    cast(round(1e12 * reach * stop / nullif(place, 0)) as bigint) as err,
    cast(round(0.5e12 * pow(0.5e0, place - 1)) as bigint) as rbp_0_5,
    cast(round(0.2e12 * pow(0.8e0, place - 1)) as bigint) as rbp_0_8,
    cast(round(0.05e12 * pow(0.95e0, place - 1)) as bigint) as rbp_0_95
  from reached
)
select
  t.request_id, min(t.unit_id) as unit_id, c.k,
  sum(case when t.place <= c.k then t.err else 0 end) / 1e12 as v_err,
  sum(case when t.place <= c.k then t.rbp_0_5 else 0 end) / 1e12 as v_rbp_0_5,
  sum(case when t.place <= c.k then t.rbp_0_8 else 0 end) / 1e12 as v_rbp_0_8,
  sum(case when t.place <= c.k then t.rbp_0_95 else 0 end) / 1e12 as v_rbp_0_95
from terms t
cross join cutoffs c
group by t.request_id, c.k
