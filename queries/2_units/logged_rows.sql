-- grain: one row per row of a table of units
-- reads: logged (every row)
-- as logged_sums, where no unit has several rows; c_1 counts rows
select
  columns('^(unit_id|hour_ts|variant|is_exposed|s_.*)$'),
  own_ts as first_ts,
  own_ts as last_ts,
  cast(columns('^c_[0-9]') as bigint)
from logged
