-- grain: one row per analysed unit of a table of units: what its row says (t_)
-- reads: source_day (unit_id, c_ columns), units (unit_id, variant, stretch, sub_bucket, is_new, s_ and u_ columns)
-- as unit_total, where every unit has one row, and nothing is known from before but by its columns
with totals as (
  select unit_id as total_unit_id, columns('^c_(.*)$') as 't_\1'
  from source_day
)
select columns('^(unit_id|variant|stretch|sub_bucket|is_new|[stu]_.*)$')
from totals
join units on total_unit_id = unit_id
