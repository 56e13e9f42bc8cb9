-- grain: one row per row of logged_sums, with its local hour and day, its phase, and what sets its impressions aside
-- reads: periods, timed_sums (the phase is that of 1_log/seen, looked up once an hour; day is in days since 1970)
with phased as (
  select
    columns('^(unit_id|variant|is_exposed|s_.*|c_[0-9]+|not_compared|slot_aside|hour|first_ms|last_ms)$'),
    case
      when period_start is null or (ts >= period_start and ts < period_end) then 3
      when ts >= before_start and ts < before_end then 2
      when first_ms is null then 1
      else 0
    end as phase
  from timed_sums
  cross join periods
)
select
  columns('^(unit_id|variant|is_exposed|s_.*|c_[0-9]+|hour|first_ms|last_ms|phase)$'),
  phase = 3 as in_period,
  hour // 24 as day,
  case
    when unit_id is null then 'null_unit'
    when phase = 1 then 'null_time'
    when phase = 0 then 'outside_period'
    when phase = 3 and not_compared is not null then not_compared
    when slot_aside is not null then slot_aside
    when not is_exposed then 'not_exposed'
  end as set_aside
from phased
