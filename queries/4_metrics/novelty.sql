-- grain: one row per unit, phase and day: impressions, and the self-information of their items
-- reads: metric_rows, item_popularity
-- an item is worth -log2 of its share of all impressions before the period (Zhou et al. 2010; Vargas and
-- Castells 2011); one that was never shown then counts as shown once. Impressions without an item, and all
-- of them where nothing was shown before, are left out and counted
with shown_before as (
  select max(all_impressions) as all_impressions from item_popularity
),
valued as (
  select
    m.unit_id, m.in_period, m.day,
    case when m.item_id is not null and s.all_impressions > 0 then 1 else 0 end as is_valued,
    case when p.item_id is null then 1 else 0 end as is_unseen,
    log2(s.all_impressions / nullif(cast(coalesce(p.impressions, 1) as double), 0)) as self_information
  from metric_rows m
  cross join shown_before s
  left join item_popularity p on m.item_id = p.item_id
)
select
  unit_id, in_period, day,
  cast(sum(is_valued) as bigint) as c_impressions,
  cast(sum(
    case when is_valued = 1 then cast(round(1e9 * self_information) as bigint) else 0 end
  ) as bigint) as c_self_information,
  cast(sum(is_valued * is_unseen) as bigint) as c_unseen_impressions,
  cast(sum(1 - is_valued) as bigint) as c_left_out_impressions
from valued
group by unit_id, in_period, day
