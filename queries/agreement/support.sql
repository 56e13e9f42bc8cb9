-- grain: one row per side and group of units: rows, and those whose item the reference never showed
-- reads: agreement_served (side, cluster, item_id, click)
-- The reference is control's odd groups of units; the sides are control's even groups and the variant,
-- so that items which are rare for everybody count on both sides.
with shown as (
  select side, cluster, item_id, click, cluster % 2 as is_odd
  from agreement_served
  where item_id is not null
),
reference as (
  select item_id, count(*) as shown
  from shown
  where side = 'control' and is_odd = 1
  group by item_id
),
compared as (
  select side, cluster, item_id, click
  from shown
  where side = 'variant' or is_odd = 0
)
select
  c.side, c.cluster, count(*) as impressions, cast(sum(c.click) as bigint) as clicks,
  cast(sum(case when f.shown is null then 1 else 0 end) as bigint) as unsupported,
  cast(sum(case when f.shown is null then c.click else 0 end) as bigint) as unsupported_clicks
from compared c
left join reference f on c.item_id = f.item_id
group by c.side, c.cluster
