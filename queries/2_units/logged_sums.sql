-- grain: one row per unit as logged, hour, logged variant, segments and exposure
-- reads: logged (every impression)
-- the one pass over the log that all sums start from, so it groups by columns as they are; c_1 counts impressions
select
  columns('^(unit_id|hour_ts|variant|is_exposed|s_.*)$'),
  min(own_ts) as first_ts,
  max(own_ts) as last_ts,
  cast(sum(columns('^c_[0-9]')) as bigint)
from logged
group by all
