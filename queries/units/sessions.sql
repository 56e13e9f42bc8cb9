-- grain: one row per unit, phase and day: sessions that began on it, and the time spent in them
-- reads: impressions, experiment (session_gap_ms)
-- two impressions in one slot as long as the gap are never a gap apart, so slots stand for rows
with slots as (
  select
    i.unit_id, i.in_period, floor(i.time_ms / e.session_gap_ms) as slot,
    min(i.day) as day, min(i.time_ms) as first_ms, max(i.time_ms) as last_ms,
    min(e.session_gap_ms) as gap_ms
  from impressions i
  cross join experiment e
  group by i.unit_id, i.in_period, floor(i.time_ms / e.session_gap_ms)
),
gaps as (
  select
    unit_id, in_period, day, first_ms, last_ms, gap_ms,
    lag(last_ms) over (partition by unit_id, in_period order by slot) as previous_ms
  from slots
),
parts as (
  select
    unit_id, in_period, day, last_ms - first_ms as inside_ms,
    case when previous_ms is null or first_ms - previous_ms > gap_ms then 1 else 0 end as begins,
    first_ms - previous_ms as before_ms
  from gaps
)
select
  unit_id, in_period, day,
  cast(sum(begins) as bigint) as c_sessions,
  cast(sum(inside_ms + case when begins = 1 then 0 else before_ms end) as bigint) as c_session_ms
from parts
group by unit_id, in_period, day
