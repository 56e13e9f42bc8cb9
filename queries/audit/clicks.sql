-- grain: one row per audited unit with a click: its clicks, how many come within ten seconds of another
-- on the same impression, and how many have an odd delay; a click that is written to the minute, hour or
-- day is early only if that is before the impression's
-- reads: click_log, audited_keys (clicked_keys of audited units, with unit_hash), experiment
with grain as (
  select
    case
      when sum(time_ms % 900000) = 0 and max(time_ms % 86400000) - min(time_ms % 86400000) <= 3600000 then 90000000
      when sum(time_ms % 3600000) = 0 then 3600000
      when sum(time_ms % 60000) = 0 then 60000
      when sum(time_ms % 1000) = 0 then 1000
      else 1
    end as grain_ms
  from click_log
),
delayed as (
  select
    k.unit_hash, c.key_1, c.key_2, c.key_3, c.copies, e.attribution_ms, g.grain_ms,
    c.time_ms - k.time_ms as delay_ms,
    c.time_ms - lag(c.time_ms) over (partition by c.key_1, c.key_2, c.key_3 order by c.time_ms) as gap_ms
  from click_log c
  join audited_keys k on c.key_1 = k.key_1 and c.key_2 = k.key_2 and c.key_3 = k.key_3
  cross join experiment e
  cross join grain g
  where k.impressions = 1 and k.set_aside = 0
)
select
  unit_hash,
  cast(sum(copies) as bigint) as clicks,
  count(*) as different,
  cast(sum(case when gap_ms <= 10000 then 1 else 0 end) as bigint) as again,
  cast(sum(case when delay_ms <= -grain_ms then copies else 0 end) as bigint) as early,
  cast(sum(case when delay_ms = 0 then copies else 0 end) as bigint) as same,
  cast(sum(case when delay_ms > attribution_ms then copies else 0 end) as bigint) as late,
  cast(sum(case when delay_ms is null then copies else 0 end) as bigint) as unknown
from delayed
group by unit_hash
