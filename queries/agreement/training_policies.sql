-- grain: one row per policy that logged rows of the training data: how many
-- reads: training_items (item_id, policy, trained)
select coalesce(policy, 'unknown') as policy, cast(sum(trained) as bigint) as trained
from training_items
group by coalesce(policy, 'unknown')
