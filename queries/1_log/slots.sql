-- grain: one row per cluster and slot of which rows count after the burn-in; says whether it shows several variants
-- reads: dated (impressions with cluster, slot, since_ms), experiment (burn_in_ms)
select cluster as of_cluster, slot as of_slot, min(variant) <> max(variant) as is_mixed
from dated
cross join experiment
where set_aside is null and in_period and cluster is not null and since_ms >= burn_in_ms
group by cluster, slot
