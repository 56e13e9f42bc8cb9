-- grain: one row per unit and local hour of the day in which it has an impression of the period, over
-- all its days
-- reads: logged_impressions
-- a returning unit is in several hours, so effects by hour need the products of its hours
with placed as (
  select unit_id, in_period, hour(ts) as hour_of_day, columns('^c_[0-9]')
  from logged_impressions
  where in_period and ts is not null
)
select unit_id, in_period, hour_of_day, cast(sum(columns('^c_[0-9]')) as bigint)
from placed
group by unit_id, in_period, hour_of_day
