-- grain: one row per unit: sums of errors and of relevance over its scored rows, multiples of 1e-12
-- reads: scored_rows (unit_id, score, grade)
-- rows of relevance 0, or nearly so, have no share of it
with compared as (
  select
    unit_id, grade, (score - grade) * (score - grade) as squared, grade * grade as grade_squared,
    case when abs(grade) > 1e-9 then abs(score - grade) / nullif(abs(grade), 0) end as error_share
  from scored_rows
)
select
  unit_id, count(*) as rows, count(*) - count(error_share) as zero_rows,
  cast(sum(cast(round(1e12 * squared) as decimal(38, 0))) as double) as v_squared,
  cast(sum(cast(round(1e12 * coalesce(error_share, 0)) as decimal(38, 0))) as double) as v_error_share,
  cast(sum(cast(round(1e12 * grade) as decimal(38, 0))) as double) as v_grade,
  cast(sum(cast(round(1e12 * grade_squared) as decimal(38, 0))) as double) as v_grade_squared
from compared
group by unit_id
