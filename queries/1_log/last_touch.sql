-- grain: one row per distinct click row, tied to the last impression of its keys before it by key_3
-- reads: untied_clicks (copies, time_ms, dwell_ms, key_1, key_2), seen (key_1, key_2, time_ms)
with named as (
  select distinct key_1, key_2 from untied_clicks
),
events as (
  select 1 as is_click, copies, time_ms, dwell_ms, key_1, key_2 from untied_clicks
  union all
  select
    0 as is_click, cast(null as bigint) as copies, s.time_ms, cast(null as bigint) as dwell_ms,
    key_1, key_2
  from seen s
  join named using (key_1, key_2)
  where s.time_ms is not null
),
touched as (
  select
    is_click, copies, time_ms, dwell_ms, key_1, key_2,
    max(case when is_click = 0 then time_ms end) over (
      partition by key_1, key_2 order by time_ms, is_click
      rows between unbounded preceding and current row
    ) as touch_ms
  from events
)
select
  copies, time_ms, dwell_ms, key_1, key_2,
  case when time_ms is not null then coalesce(touch_ms, time_ms) end as key_3
from touched
where is_click = 1
