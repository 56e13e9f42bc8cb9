-- grain: one row per analysed unit and weekday on which it has an impression, over all its weeks
-- reads: placed_day, weekday_of (date, weekday from 1, a Monday)
with named as (
  select unit_id, variant, entry_day, weekday, columns('^c_')
  from placed_day
  join weekday_of on day = date
)
select unit_id, variant, entry_day, weekday as day, cast(sum(columns('^c_')) as bigint)
from named
group by unit_id, variant, entry_day, weekday
