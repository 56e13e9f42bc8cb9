-- grain: one row per analysed unit: what a source adds up to in the period (t_) and before it (p_)
-- reads: source_day (unit_id, in_period, c_ columns), units (unit_id, variant, stretch, sub_bucket, is_new, s_ and u_ columns)
-- a unit that the source does not know has zeros
with totals as (
  select
    unit_id as total_unit_id,
    sum(case when in_period then columns('^c_(.*)$') else 0 end) as 't_\1',
    sum(case when in_period then 0 else columns('^c_(.*)$') end) as 'p_\1'
  from source_day
  group by unit_id
)
select
  columns('^(unit_id|variant|stretch|sub_bucket|is_new|[su]_.*)$'),
  cast(coalesce(columns('^[tp]_'), 0) as bigint)
from units
left join totals on unit_id = total_unit_id
