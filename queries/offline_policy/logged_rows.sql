-- grain: one row per impression of the source variant: the item shown, its probability in the log
-- and under the policy, and the reward
-- reads: served, comparison (source, by_column), policy_units, policy_items, policy
-- an item that the policy never shows has probability 0; a missing value of a column stays missing
select
  u.unit_no, s.fold, s.position, n.item_no, s.reward, s.propensity,
  case
    when c.by_column then s.evaluation_probability
    else coalesce(p.probability, 0.0e0)
  end as evaluation
from served s
join comparison c on s.variant = c.source
join policy_units u on s.unit_id = u.unit_id
left join policy_items n on s.item_id = n.item_id
left join policy p on s.position = p.position and s.item_id = p.item_id
order by u.unit_no, s.position, n.item_no, s.reward, s.propensity, evaluation
