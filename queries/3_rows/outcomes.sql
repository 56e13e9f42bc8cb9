-- grain: one row per row of an outcome log, with the reason where it does not count
-- reads: outcome_log (logged_id, copies, time_ms, ts, v_ columns), periods, unit_names, unit_entry
-- (unit_id, exposed_ms, entry_day)
-- day is local; since_ms and age are time and local days since the unit's exposure, before which no row of the period counts
with phased as (
  select
    logged_id, copies, time_ms, cast(ts as date) as day,
    case
      when time_ms is null then 1
      when period_start is null or (ts >= period_start and ts < period_end) then 3
      when ts >= before_start and ts < before_end then 2
      else 0
    end as phase,
    columns('^v_')
  from outcome_log
  cross join periods
)
select
  o.copies, e.unit_id, o.phase = 3 as in_period, o.time_ms, o.day,
  o.time_ms - e.exposed_ms as since_ms,
  date_diff('day', e.entry_day, o.day) as age,
  case
    when o.logged_id is null then 'null_unit'
    when e.unit_id is null then 'not_in_experiment'
    when o.phase = 1 then 'null_time'
    when o.phase = 0 then 'outside_period'
    when o.phase = 3 and o.time_ms < e.exposed_ms then 'before_exposure'
  end as set_aside,
  columns('^v_')
from phased o
left join unit_names n on o.logged_id = n.logged_id
left join unit_entry e on n.unit_id = e.unit_id
