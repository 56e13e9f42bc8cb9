-- grain: one row per unit: sums of log loss and errors of its scores, multiples of 1e-9
-- reads: scored_rows (unit_id, score, click, grade), threshold (threshold: null without one)
-- p is clipped at 2.2e-16 from 0 and 1, as sklearn does; log loss and Brier score are of p
with clipped as (
  select
    unit_id, score, click, grade, threshold,
    greatest(least(score, 1 - 2.220446049250313e-16), 2.220446049250313e-16) as p
  from scored_rows
  cross join threshold
),
judged as (
  select
    unit_id, score, click, grade, p,
    -ln(case when click = 1 then p else 1 - p end) as surprise,
    case when score >= threshold then 1 else 0 end as said_yes
  from clipped
)
select
  unit_id, count(*) as rows, cast(sum(click) as bigint) as clicks,
  cast(sum(said_yes) as bigint) as predicted_positive,
  cast(sum(said_yes * click) as bigint) as true_positive,
  cast(sum(2 * said_yes * click) as bigint) as twice_true_positive,
  cast(sum(said_yes + click) as bigint) as both_positive,
  cast(sum(cast(round(1e9 * surprise) as bigint)) as bigint) as v_log_loss,
  -cast(sum(cast(round(1e9 * surprise) as bigint)) as bigint) as v_log_likelihood,
  cast(sum(cast(round(1e9 * score) as bigint)) as bigint) as v_predicted,
  cast(sum(cast(round(1e9 * (p - click) * (p - click)) as bigint)) as bigint) as v_squared_error,
  cast(sum(cast(round(1e9 * abs(score - grade)) as bigint)) as bigint) as v_absolute_residual,
  cast(sum(cast(round(1e9 * (score - grade) * (score - grade)) as decimal(38, 0))) as double)
    as v_squared_residual
from judged
group by unit_id
