-- grain: one row per analysed unit over the whole period (on_day is null), and one per local day on which it is active
-- reads: placed (unit_id, variant, crosses), variants, experiment (excludes), logged_cells, spans (is_day: 0, and 1 for days)
-- c_… are sums of the period, b_… of the time before; `abeval sql --sums` writes this for the user's warehouse
with analysed as (
  select p.unit_id as analysed_id, p.variant as arm
  from placed p
  join variants v on p.variant = v.variant
  cross join experiment e
  where not (p.crosses and e.excludes)
),
counted as (
  select unit_id, in_period, day, columns('^c_[0-9]')
  from logged_cells
  where set_aside is null
),
by_day as (
  select arm, analysed_id, in_period, day, cast(sum(columns('^c_[0-9]')) as bigint)
  from analysed
  left join counted on analysed_id = unit_id
  group by arm, analysed_id, in_period, day
)
select
  arm as variant, case when is_day = 1 then day end as on_day,
  case when max(case when not in_period then 1 else 0 end) = 1 then 0 else 1 end as is_new,
  count(case when in_period and day is not null then 1 end) as c_days,
  count(case when not in_period and day is not null then 1 end) as b_c_days,
  coalesce(cast(sum(case when in_period then columns('^c_[0-9]') end) as bigint), 0),
  coalesce(cast(sum(case when not in_period then columns('^c_[0-9]') end) as bigint), 0) as "b_\0"
from by_day
cross join spans
where is_day = 0 or (in_period and day is not null)
group by arm, analysed_id, is_day, case when is_day = 1 then day end
