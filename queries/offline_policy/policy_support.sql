-- grain: one row per position and item that the policy may show there: its probability, and how often
-- the source variant showed it there
-- reads: policy, policy_items, served, comparison (source)
with taken as (
  select s.position, s.item_id, count(*) as times
  from served s
  join comparison c on s.variant = c.source
  where s.item_id is not null
  group by s.position, s.item_id
)
select p.position, n.item_no, p.probability, coalesce(t.times, 0) as times
from policy p
join policy_items n on p.item_id = n.item_id
left join taken t on p.position = t.position and p.item_id = t.item_id
order by p.position, n.item_no
