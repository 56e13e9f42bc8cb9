-- grain: one row per unit as logged, phase, local hour, logged variant, segments and exposure
-- reads: logged (every impression)
-- the one pass over the log that all sums start from; c_1 counts impressions, hours count from 1970
select
  columns('^(unit_id|phase|hour|variant|is_exposed|s_.*)$'),
  min(time_ms) as first_ms,
  max(time_ms) as last_ms,
  cast(sum(columns('^c_[0-9]')) as bigint)
from logged
group by all
