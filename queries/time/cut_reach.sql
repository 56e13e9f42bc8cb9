-- grain: one row per variant, item and group of sub-buckets: units shown the item in a window, and
-- impressions
-- reads: shown_day, cut (first_day, last_day)
select
  variant, item_id, item_group,
  cast(sum(
    case when previous_day is null or previous_day < first_day then units else 0 end
  ) as bigint) as units,
  cast(sum(impressions) as bigint) as impressions
from shown_day
cross join cut
where day between first_day and last_day
group by variant, item_id, item_group
