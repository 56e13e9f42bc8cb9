-- grain: one row per group of units and item shown in some days: units that were shown it then, impressions
-- reads: item_days, item_window (first_day, last_day)
select
  d.unit_group, d.item,
  cast(sum(case when d.day_before is null or d.day_before < w.first_day then d.units else 0 end) as bigint)
    as units,
  cast(sum(d.impressions) as bigint) as impressions
from item_days d
cross join item_window w
where d.day between w.first_day and w.last_day
group by d.unit_group, d.item
