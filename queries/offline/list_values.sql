-- grain: one row per request with a relevant item, and cut-off: what ranking metrics are ratios of
-- reads: hits, requests (request_id, listed), cutoffs (k, full_ideal: the DCG of k relevant items)
-- a metric is the quotient of two of these columns, of which abeval/offline/metrics.py has the table;
-- precisions, reciprocals, gains and DCG are multiples of 1e-12
-- the mean of recall at 1 … k ends with the list, as in published examples
with cut as (
  select
    h.request_id, min(h.unit_id) as unit_id, c.k, min(c.full_ideal) as full_ideal,
    cast(count(*) as double) as relevant,
    cast(sum(case when h.place <= c.k then 1 else 0 end) as double) as hits,
    cast(sum(case when h.place <= c.k then h.place else 0 end) as double) as hit_places,
    cast(sum(case when h.place <= h.relevant then 1 else 0 end) as double) as early,
    cast(min(h.place) as double) as first_place,
    cast(sum(case when h.place <= c.k then h.precision_here else 0 end) as double) as precisions,
    cast(sum(case when h.place <= c.k then h.hit else 0 end) as double) as recalls,
    cast(sum(case when h.place <= c.k then h.reciprocal else 0 end) as double) as reciprocals,
    cast(sum(case when h.place <= c.k then h.gain else 0 end) as double) as gain,
    cast(sum(case when h.place <= c.k then h.dcg_bin else 0 end) as double) as dcg_bin,
    cast(sum(case when h.place <= c.k then h.dcg_lin else 0 end) as double) as dcg_lin,
    cast(sum(case when h.place <= c.k then h.dcg_exp else 0 end) as double) as dcg_exp,
    cast(sum(case when h.hit <= c.k then h.ideal_bin else 0 end) as double) as ideal_bin,
    cast(sum(case when h.ideal <= c.k then h.ideal_lin else 0 end) as double) as ideal_lin,
    cast(sum(case when h.ideal <= c.k then h.ideal_exp else 0 end) as double) as ideal_exp,
    cast(sum(case when h.hit <= c.k then h.list_bin else 0 end) as double) as list_bin,
    cast(sum(case when h.list_ideal <= c.k then h.list_lin else 0 end) as double) as list_lin,
    cast(sum(case when h.list_ideal <= c.k then h.list_exp else 0 end) as double) as list_exp
  from hits h
  cross join cutoffs c
  group by h.request_id, c.k
)
select
  c.request_id, c.unit_id, c.k, c.relevant, least(c.relevant, c.k) as best,
  (c.k + c.relevant) / 2 as mean_size, c.hits, least(c.hits, 1) as any_hit, c.early,
  c.hits * (least(c.k, r.listed) + 1) - c.hit_places as steps, c.recalls,
  case when c.first_place <= c.k then 1 / nullif(c.first_place, 0) else 0 end as first,
  c.precisions, c.reciprocals, c.gain, c.dcg_bin, c.dcg_lin, c.dcg_exp, c.ideal_bin, c.ideal_lin,
  c.ideal_exp, c.list_bin, c.list_lin, c.list_exp, c.full_ideal
from cut c
join requests r on c.request_id = r.request_id
