-- grain: one row per analysed unit and local hour of the day in which it has an impression of the
-- period, over all its days
-- reads: logged_impressions, entry (unit_id, variant, entry_day)
-- a returning unit is in several hours, so effects by hour need the products of its hours
with placed as (
  select unit_id as placed_unit_id, hour(ts) as day, columns('^c_[0-9]')
  from logged_impressions
  where in_period and ts is not null
),
summed as (
  select placed_unit_id, day, cast(sum(columns('^c_[0-9]')) as bigint)
  from placed
  group by placed_unit_id, day
)
select unit_id, variant, entry_day, day, columns('^c_[0-9]')
from summed
join entry on placed_unit_id = unit_id
