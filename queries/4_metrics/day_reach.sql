-- grain: one row per group of units and item shown on a day: units that were not shown it since a first day, impressions
-- reads: item_days, reach_day (first_day, day)
-- units of all days since the first one add up, so that each counts once
select
  d.unit_group, d.item,
  cast(sum(case when d.day_before is null or d.day_before < r.first_day then d.units else 0 end) as bigint)
    as units,
  cast(sum(d.impressions) as bigint) as impressions
from item_days d
inner join reach_day r on d.day = r.day
group by d.unit_group, d.item
