-- grain: one row per analysed unit over the whole period (on_day is null), and one per local day on which it is active
-- reads: counted (unit_id, in_period, day, c_ columns; and a row of each analysed unit with its variant), spans (is_day: 0,
-- and 1 for days)
-- c_… are sums of the period, b_… of the time before; `abeval tools sql --sums` writes this for the user's warehouse. There is no
-- join, for a planner that takes sums of sums for few rows joins them in a loop
with marked as (
  select unit_id, in_period, day, max(variant) over (partition by unit_id) as arm, columns('^c_')
  from counted
),
by_day as (
  select arm, unit_id, in_period, day, cast(sum(columns('^c_')) as bigint)
  from marked
  where arm is not null
  group by arm, unit_id, in_period, day
)
select
  arm as variant, case when is_day = 1 then day end as on_day,
  case when max(case when not in_period then 1 else 0 end) = 1 then 0 else 1 end as is_new,
  count(case when in_period and day is not null then 1 end) as c_days,
  count(case when not in_period and day is not null then 1 end) as b_c_days,
  coalesce(cast(sum(case when in_period then columns('^c_') end) as bigint), 0),
  coalesce(cast(sum(case when not in_period then columns('^c_') end) as bigint), 0) as "b_\0"
from by_day
cross join spans
where is_day = 0 or (in_period and day is not null)
group by arm, unit_id, is_day, case when is_day = 1 then day end
