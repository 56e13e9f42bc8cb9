-- grain: one row per request with a relevant item, and cut-off: the value of every ranking metric
-- reads: hits, requests (request_id, listed), cutoffs (k, full_ideal: the ideal of k relevant items)
-- the mean of recall at 1 … k ends with the list, as in published examples
with cut as (
  select
    h.request_id, min(h.unit_id) as unit_id, c.k, c.full_ideal,
    cast(count(*) as double) as relevant,
    cast(sum(case when h.place <= c.k then 1 else 0 end) as double) as hits,
    cast(min(h.place) as double) as first_place,
    cast(sum(case when h.place <= c.k then h.precision_here else 0 end) as double) as precisions,
    cast(sum(case when h.place <= c.k then h.hit else 0 end) as double) as recalls,
    cast(sum(case when h.place <= c.k then least(c.k, r.listed) - h.place + 1 else 0 end) as double) as steps,
    cast(sum(case when h.place <= c.k then h.reciprocal else 0 end) as double) as reciprocals,
    cast(sum(case when h.place <= c.k then h.gain else 0 end) as double) as gain,
    cast(sum(case when h.place <= c.k then h.dcg_bin else 0 end) as double) as dcg_bin,
    cast(sum(case when h.place <= c.k then h.dcg_lin else 0 end) as double) as dcg_lin,
    cast(sum(case when h.place <= c.k then h.dcg_exp else 0 end) as double) as dcg_exp,
    cast(sum(case when h.ideal <= c.k then h.ideal_bin else 0 end) as double) as ideal_bin,
    cast(sum(case when h.ideal <= c.k then h.ideal_lin else 0 end) as double) as ideal_lin,
    cast(sum(case when h.ideal <= c.k then h.ideal_exp else 0 end) as double) as ideal_exp,
    cast(sum(case when h.list_ideal <= c.k then h.list_bin else 0 end) as double) as list_bin,
    cast(sum(case when h.list_ideal <= c.k then h.list_lin else 0 end) as double) as list_lin,
    cast(sum(case when h.list_ideal <= c.k then h.list_exp else 0 end) as double) as list_exp
  from hits h
  join requests r on h.request_id = r.request_id
  cross join cutoffs c
  group by h.request_id, c.k, c.full_ideal
)
select
  request_id, unit_id, k,
  hits / nullif(k, 0) as v_precision,
  hits / nullif(relevant, 0) as v_recall,
  hits / nullif(least(relevant, k), 0) as v_recall_cap,
  2 * hits / nullif(k + relevant, 0) as v_f1,
  least(hits, 1) as v_hit,
  precisions / nullif(1e12 * relevant, 0) as v_map_all,
  precisions / nullif(1e12 * least(relevant, k), 0) as v_map_min,
  coalesce(precisions / nullif(1e12 * hits, 0), 0) as v_map_hits,
  precisions / nullif(1e12 * k, 0) as v_map_k,
  steps / nullif(k * relevant, 0) as v_mar_mean,
  recalls / nullif(relevant * relevant, 0) as v_mar_all,
  recalls / nullif(relevant * least(relevant, k), 0) as v_mar_min,
  case when first_place <= k then 1 / nullif(first_place, 0) else 0 end as v_mrr,
  reciprocals / 1e12 as v_arhr,
  gain / 1e12 as v_cg,
  dcg_bin / 1e12 as v_dcg_bin,
  dcg_lin / 1e12 as v_dcg_lin,
  dcg_exp / 1e12 as v_dcg_exp,
  dcg_bin / nullif(ideal_bin, 0) as v_ndcg_bin,
  dcg_lin / nullif(ideal_lin, 0) as v_ndcg_lin,
  dcg_exp / nullif(ideal_exp, 0) as v_ndcg_exp,
  coalesce(dcg_bin / nullif(list_bin, 0), 0) as v_ndcg_bin_list,
  coalesce(dcg_lin / nullif(list_lin, 0), 0) as v_ndcg_lin_list,
  coalesce(dcg_exp / nullif(list_exp, 0), 0) as v_ndcg_exp_list,
  dcg_bin / nullif(full_ideal, 0) as v_ndcg_bin_k
from cut
