-- grain: one row per row of an outcome log, with the reason where it does not count
-- reads: outcome_log (logged_id, copies, time_ms, day, phase, v_ columns), unit_names, unit_entry
-- (unit_id, exposed_ms, entry_day)
-- since_ms and age are the time and the local days since the unit's exposure; a row of the period from
-- before it does not count
select
  o.copies, e.unit_id, o.phase = 3 as in_period, o.time_ms,
  o.time_ms - e.exposed_ms as since_ms,
  date_diff('day', e.entry_day, o.day) as age,
  case
    when o.logged_id is null then 'null_unit'
    when e.unit_id is null then 'not_in_experiment'
    when o.time_ms is null then 'null_time'
    when o.phase < 2 then 'outside_period'
    when o.phase = 3 and o.time_ms < e.exposed_ms then 'before_exposure'
  end as set_aside,
  columns('^v_')
from outcome_log o
left join unit_names n on o.logged_id = n.logged_id
left join unit_entry e on n.unit_id = e.unit_id
