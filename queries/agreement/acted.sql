-- grain: one row per side and part of the units: impressions and clicks, and where the model ranked
-- reads: agreement_served (side, cluster, treated, click)
select
  side, cast(cluster % 16 as bigint) as part, count(*) as impressions,
  cast(sum(click) as bigint) as clicks,
  cast(sum(case when coalesce(treated, 1) = 1 then click else 0 end) as bigint) as here
from agreement_served
group by side, cluster % 16
