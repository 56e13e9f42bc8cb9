-- grain: one row per key that both a click and an impression have
-- reads: seen (impressions with key_1, key_2, key_3, time_ms, unit_id, set_aside), click_log
with named as (
  select distinct key_1, key_2, key_3 from click_log
)
select
  s.key_1, s.key_2, s.key_3,
  count(*) as impressions,
  min(s.time_ms) as time_ms,
  min(s.unit_id) as unit_id,
  count(s.set_aside) as set_aside
from seen s
join named n on s.key_1 = n.key_1 and s.key_2 = n.key_2 and s.key_3 = n.key_3
group by s.key_1, s.key_2, s.key_3
