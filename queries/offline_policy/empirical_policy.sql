-- grain: one row per position and item that the target variant shows there: its share
-- reads: served, comparison (target)
with shown as (
  select s.position, s.item_id, count(*) as times
  from served s
  join comparison c on s.variant = c.target
  where s.item_id is not null
  group by s.position, s.item_id
),
totals as (
  select position, sum(times) as times from shown group by position
)
select
  s.position, s.item_id,
  cast(s.times as double) / nullif(cast(t.times as double), 0) as probability
from shown s
join totals t on s.position = t.position
