-- grain: one row per impression; phase is 3 in the period, 2 before it, 1 without a time, else 0; set_aside is why it does not count
-- reads: named_impressions, periods
with phased as (
  select
    columns('^([a-z]+|(time|since)_ms|own_.*|[a-z]+_id|score_.*|raw_.*|key_[123]|hour_ts|not_compared)$'),
    cast(ts as date) as day,
    case
      when period_start is null or (ts >= period_start and ts < period_end) then 3
      when ts >= before_start and ts < before_end then 2
      when time_ms is null then 1
      else 0
    end as phase
  from named_impressions
  cross join periods
)
select
  *,
  phase = 3 as in_period,
  case
    when unit_id is null then 'null_unit'
    when phase = 1 then 'null_time'
    when phase = 0 then 'outside_period'
    when phase = 3 then not_compared
  end as set_aside
from phased
