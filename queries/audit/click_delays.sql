-- grain: one row per variant, group of units and class of the time from an impression to its click
-- reads: click_log, clicked_keys, audited_names, experiment
with delayed as (
  select u.variant, u.cluster, c.copies, c.time_ms - k.time_ms as delay_ms, e.attribution_ms
  from click_log c
  join clicked_keys k on c.key_1 = k.key_1 and c.key_2 = k.key_2 and c.key_3 = k.key_3
  join audited_names u on k.unit_id = u.logged_id
  cross join experiment e
  where k.impressions = 1 and k.set_aside = 0
)
select
  variant, cluster,
  case
    when delay_ms is null then 'unknown'
    when delay_ms < 0 then 'before'
    when delay_ms = 0 then 'same'
    when delay_ms > attribution_ms then 'late'
    when delay_ms <= 1000 then 'second'
    when delay_ms <= 60000 then 'minute'
    when delay_ms <= 3600000 then 'hour'
    else 'longer'
  end as delay,
  cast(sum(copies) as bigint) as clicks
from delayed
group by 1, 2, 3
