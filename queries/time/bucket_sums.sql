-- grain: one row per sub-bucket, all variants pooled: units, and sums over them of y, x and their products
-- reads: bucket_value (sub_bucket, y, x: whole numbers, one row per unit)
-- summed exactly, then rounded to doubles
with wide as (
  select sub_bucket, cast(y as decimal(38, 0)) as y, cast(x as decimal(38, 0)) as x
  from bucket_value
)
select
  sub_bucket, cast(count(*) as double) as units,
  cast(sum(y) as double) as y, cast(sum(x) as double) as x,
  cast(sum(y * y) as double) as y_y, cast(sum(y * x) as double) as y_x, cast(sum(x * x) as double) as x_x
from wide
group by sub_bucket
order by sub_bucket
