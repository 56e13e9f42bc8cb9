-- grain: one row per unit with a scored impression in the period
-- reads: scored (variant, unit_id, score of the served model, click)
-- each unit's pseudo-value AUC + U psi: the mean over the variant's U units is the AUC, the variance
-- over U that of the AUC clustered by unit (DeLong 1988; Obuchowski 1997)
with levels as (
  select variant, score, sum(1 - click) as negatives, sum(click) as positives
  from scored
  group by variant, score
),
ranked as (
  select
    variant, score, negatives, positives,
    sum(negatives) over below as negatives_to_here,
    sum(positives) over below as positives_to_here,
    sum(negatives) over whole as all_negatives,
    sum(positives) over whole as all_positives
  from levels
  window
    below as (partition by variant order by score rows unbounded preceding),
    whole as (partition by variant)
),
halves as (
  select
    variant, score, positives, all_negatives, all_positives,
    2 * negatives_to_here - negatives as beaten,
    2 * (all_positives - positives_to_here) + positives as beating
  from ranked
),
overall as (
  select
    variant,
    cast(all_negatives as double) as negatives, cast(all_positives as double) as positives,
    cast(sum(positives * beaten) as double)
      / nullif(2.0e0 * cast(all_positives as double) * cast(all_negatives as double), 0) as auc
  from halves
  group by variant, all_negatives, all_positives
),
per_unit as (
  select
    s.variant, s.unit_id, sum(s.click) as positives, sum(1 - s.click) as negatives,
    sum(case when s.click = 1 then h.beaten else h.beating end) as won_halves
  from scored s
  join halves h on s.variant = h.variant and s.score = h.score
  group by s.variant, s.unit_id
),
sized as (
  select variant, count(*) as units from per_unit group by variant
),
influences as (
  select
    p.unit_id,
    o.auc + z.units * (
      cast(p.won_halves as double) / nullif(2.0e0 * o.positives * o.negatives, 0)
      - o.auc * (p.positives / nullif(o.positives, 0) + p.negatives / nullif(o.negatives, 0))
    ) as pseudo_value
  from per_unit p
  join overall o on p.variant = o.variant
  join sized z on p.variant = z.variant
  where o.positives > 0 and o.negatives > 0
)
select
  unit_id, true as in_period, 1 as c_scored_units,
  cast(round(1e9 * pseudo_value) as bigint) as c_auc, round(1e12 * pseudo_value) as fine_auc
from influences
