-- grain: one row per unit, all variants pooled: y and x, both before the period, and whether it is new
-- reads: bucket_value (y, x, y0, x0, is_new: whole numbers, one row per unit)
-- ordered by value, so that a draw by position does not depend on the order of the log
select
  cast(y as double) as y, cast(x as double) as x,
  cast(y0 as double) as y0, cast(x0 as double) as x0, cast(is_new as double) as is_new
from bucket_value
order by y, x, y0, x0, is_new
