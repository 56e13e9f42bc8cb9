-- grain: one row per unit and day: impressions, and clicks on unexpected items: of no category clicked before, nor of the fifth shown most (Ge et al. 2010)
-- reads: metric_rows, item_popularity
with pasts as (
  select distinct unit_id, category
  from metric_rows
  where not in_period and click = 1 and category is not null
),
units_with_past as (select distinct unit_id from pasts),
judged as (
  select
    m.unit_id, m.day, m.click,
    case when u.unit_id is null then 1 else 0 end as has_no_past,
    case when m.item_id is not null and m.category is not null then 1 else 0 end as is_known,
    case when p.unit_id is not null or 5 * i.as_popular <= i.items then 0 else 1 end as is_unexpected
  from metric_rows m
  left join units_with_past u on m.unit_id = u.unit_id
  left join pasts p on m.unit_id = p.unit_id and m.category = p.category
  left join item_popularity i on m.item_id = i.item_id
  where m.in_period
),
days as (
  select
    unit_id, day, max(has_no_past) as has_no_past,
    count(*) as impressions, sum(is_known) as known, sum(is_known * is_unexpected * click) as serendipitous
  from judged
  group by unit_id, day
)
select
  unit_id, true as in_period, day,
  cast(case when has_no_past = 1 then 0 else known end as bigint) as c_impressions,
  cast(case when has_no_past = 1 then 0 else serendipitous end as bigint) as c_serendipitous_clicks,
  case
    when has_no_past = 1 and row_number() over (partition by unit_id order by day) = 1 then 1 else 0
  end as c_units_without_past,
  cast(case when has_no_past = 1 then impressions else 0 end as bigint) as c_impressions_without_past,
  cast(case when has_no_past = 1 then 0 else impressions - known end as bigint) as c_left_out_impressions
from days
