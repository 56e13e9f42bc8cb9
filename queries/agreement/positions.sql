-- grain: one row per variant, group of units and position
-- reads: agreement_rows (variant, cluster, position, click)
select
  variant, cluster, cast(position as bigint) as position,
  count(*) as impressions, cast(sum(click) as bigint) as clicks
from agreement_rows
where position is not null
group by variant, cluster, cast(position as bigint)
