-- grain: one row per unit: numerators and denominators of GAUC and, of binary relevance, of FCP
-- reads: unit_pairs (unit_id, n, p, won_halves, tied)
-- AUC-weighted columns are multiples of 1e-9; a unit without both classes has no AUC
with judged as (
  select
    unit_id, n, p, p * (n - p) as pairs, won_halves, tied,
    case when p > 0 and p < n then 1 else 0 end as has_both,
    cast(won_halves as double) / nullif(2.0e0 * p * (n - p), 0) as auc
  from unit_pairs
)
select
  unit_id,
  has_both * n as impressions, has_both * p as clicks, has_both as units, pairs,
  n as all_impressions, p as all_clicks, 1 - has_both as single_class_units,
  cast(coalesce(round(1e9 * n * auc), 0) as bigint) as v_auc_impressions,
  cast(coalesce(round(1e9 * p * auc), 0) as bigint) as v_auc_clicks,
  cast(coalesce(round(1e9 * auc), 0) as bigint) as v_auc_units,
  cast(round(1e9 * n * coalesce(auc, 0.5e0)) as bigint) as v_auc_impressions_half,
  won_halves / 2.0e0 as won_pairs, pairs as graded, won_halves / 2.0e0 as won_graded,
  (won_halves - tied) / 2.0e0 as concordant, pairs - tied as ordered
from judged
