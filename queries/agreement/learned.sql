-- grain: one row per side and group of units: impressions, and those that are rows of the training data
-- reads: agreement_served (side, cluster, learned)
select side, cluster, count(*) as impressions, cast(sum(learned) as bigint) as learned
from agreement_served
group by side, cluster
