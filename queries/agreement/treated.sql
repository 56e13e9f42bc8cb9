-- grain: one row per side and group of units: units, impressions, clicks by where the treatment acts
-- reads: agreement_served (side, cluster, unit_id, click, treated)
select
  side, cluster, count(distinct unit_id) as units,
  cast(sum(case when treated = 1 then click else 0 end) as bigint) as here,
  cast(sum(case when treated = 1 then 0 else click end) as bigint) as elsewhere,
  count(*) as impressions
from agreement_served
group by side, cluster
