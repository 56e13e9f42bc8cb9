-- grain: one row per unit, all variants pooled: y and x
-- reads: bucket_value (y, x: whole numbers, one row per unit)
-- ordered by value, so that a draw by position does not depend on the order of the log
select cast(y as double) as y, cast(x as double) as x
from bucket_value
order by y, x
