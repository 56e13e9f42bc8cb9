-- grain: one row per unit and phase that reached a step of a funnel, with the time at which it did
-- reads: step_before (unit_id, in_period, time_ms: when it reached the step before), step_event
-- (unit_id, in_period, time_ms: rows that are the step)
-- a row counts at the time of the step before, or later
select e.unit_id, e.in_period, min(e.time_ms) as time_ms
from step_event e
join step_before b
  on e.unit_id = b.unit_id and e.in_period = b.in_period and e.time_ms >= b.time_ms
group by e.unit_id, e.in_period
