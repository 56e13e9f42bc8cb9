-- grain: one row per unit of the target variant: its rewards, added as whole multiples of 1e-6,
-- and impressions
-- reads: served, comparison (target), unit_names (unit_id, logged_id)
select
  s.unit_id, cast(sum(cast(round(1e6 * s.reward) as bigint)) as double) / 1e6 as reward,
  count(*) as impressions
from served s
join comparison c on s.variant = c.target
join unit_names n on s.unit_id = n.unit_id
group by s.unit_id, n.logged_id
order by n.logged_id
