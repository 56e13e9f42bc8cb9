-- grain: one row per impression of the period that the variant of its unit served
-- reads: policy_rows (impressions with evaluation_probability, null where no column tells it), units
-- a unit that crossed over was shown other policies too, whose rows are not of this one
select
  u.variant, i.unit_id, u.sub_bucket % 2 as fold, coalesce(i.position, 0) as position, i.item_id,
  i.reward, i.propensity, i.evaluation_probability
from policy_rows i
join units u on i.unit_id = u.unit_id
where i.in_period and coalesce(i.variant, u.variant) = u.variant
