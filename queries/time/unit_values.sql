-- grain: one row per unit, all variants pooled: y and x
-- reads: bucket_value (y, x: whole numbers, one row per unit)
-- in the order of the values, so that what is drawn by place does not depend on how they lie
select cast(y as double) as y, cast(x as double) as x
from bucket_value
order by y, x
