-- grain: one row per row of a table of units
-- reads: logged (every row)
-- as logged_sums, where no unit has several rows; c_1 counts rows
select
  columns('^(unit_id|phase|hour|variant|is_exposed|s_.*)$'),
  time_ms as first_ms,
  time_ms as last_ms,
  cast(columns('^c_[0-9]') as bigint)
from logged
