-- grain: one row per event with an impression of its item before it
-- reads: interleaved_events (event_id, unit_id, item, time_ms, v_ columns), interleaved, span (ms)
-- an event belongs to the last impression of its item that its unit saw before it
with seen as (
  select e.event_id, max(i.time_ms) as shown_ms
  from interleaved_events e
  join interleaved i on e.unit_id = i.unit_id and e.item = i.item
  where i.time_ms <= e.time_ms and e.time_ms - i.time_ms <= (select ms from span)
  group by e.event_id
),
shown as (
  select s.event_id, max(i.row_id) as row_id
  from seen s
  join interleaved_events e on s.event_id = e.event_id
  join interleaved i on e.unit_id = i.unit_id and e.item = i.item and s.shown_ms = i.time_ms
  group by s.event_id
)
select event_id, row_id from shown
