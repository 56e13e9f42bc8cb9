-- grain: one row per unit, phase and day: sessions that began on it, and the time spent in those
-- reads: metric_rows, experiment (session_gap_ms)
-- time is cut into slots as long as the gap; impressions of one slot are of one session, so that one
-- row per slot is enough
with slots as (
  select
    i.unit_id, i.in_period, floor(i.time_ms / e.session_gap_ms) as slot,
    min(i.day) as day, min(i.time_ms) as first_ms, max(i.time_ms) as last_ms
  from metric_rows i
  cross join experiment e
  where i.time_ms is not null
  group by i.unit_id, i.in_period, floor(i.time_ms / e.session_gap_ms)
),
gaps as (
  select
    s.unit_id, s.in_period, s.slot, s.day, s.first_ms, s.last_ms, e.session_gap_ms as gap_ms,
    lag(s.last_ms) over (partition by s.unit_id, s.in_period order by s.slot) as previous_ms
  from slots s
  cross join experiment e
),
numbered as (
  select
    unit_id, in_period, day, first_ms, last_ms,
    count(case when previous_ms is null or first_ms - previous_ms > gap_ms then slot end) over (
      partition by unit_id, in_period order by slot rows unbounded preceding
    ) as number
  from gaps
),
sessions as (
  select unit_id, in_period, min(day) as day, max(last_ms) - min(first_ms) as session_ms
  from numbered
  group by unit_id, in_period, number
)
select
  unit_id, in_period, day,
  count(*) as c_sessions,
  cast(sum(session_ms) as bigint) as c_session_ms
from sessions
group by unit_id, in_period, day
