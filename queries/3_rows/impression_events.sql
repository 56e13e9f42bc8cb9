-- grain: one row per impression of an analysed unit, with the time and the local days since its exposure
-- reads: impressions (unit_id, in_period, day, time_ms, v_ columns), unit_entry (unit_id, first_ms,
-- entry_day)
select
  i.unit_id, i.in_period, i.time_ms, i.time_ms - e.first_ms as since_ms,
  date_diff('day', e.entry_day, i.day) as age,
  columns('^v_')
from impressions i
join unit_entry e on i.unit_id = e.unit_id
