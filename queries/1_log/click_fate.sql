-- grain: one row per distinct click row, with the reason where it does not count; one before its impression counts
-- reads: click_log (copies, time_ms, dwell_ms, key_1, key_2, key_3), clicked_keys, experiment
select
  c.copies, c.key_1, c.key_2, c.key_3, c.dwell_ms,
  case
    when c.key_1 is null or c.key_2 is null or c.key_3 is null then 'null_key'
    when k.impressions is null then 'no_impression'
    when k.set_aside > 0 then 'impression_set_aside'
    when k.impressions > 1 then 'ambiguous_impression'
    when c.time_ms > k.time_ms + e.attribution_ms then 'late'
  end as set_aside
from click_log c
left join clicked_keys k on c.key_1 = k.key_1 and c.key_2 = k.key_2 and c.key_3 = k.key_3
cross join experiment e
