-- grain: one row per impression of the period that the variant of its unit served
-- reads: policy_rows (impressions with evaluation_probability, null unless the policy is a column), units
-- rows that another variant served to the unit (crossover) are left out
select
  u.variant, i.unit_id, u.sub_bucket % 2 as fold, coalesce(i.position, 0) as position, i.item_id,
  i.reward, i.propensity, i.evaluation_probability
from policy_rows i
join units u on i.unit_id = u.unit_id
where i.in_period and coalesce(i.variant, u.variant) = u.variant
