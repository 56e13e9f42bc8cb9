-- grain: one row per part, cell, variant and stretch: exact sums over its units, of products of
-- two and of three
-- reads: metric (part, cell, variant, stretch, y, x, y0, x0, is_new: whole numbers, one row per unit and
-- part, which numbers what is summed; 0 marks the pre-period, and is_new is 1 where a unit was not
-- seen in it, so that its y0 and x0 are 0)
-- 128-bit integers leave as text, so that no reader rounds them
with wide as (
  select
    part, cell, variant, stretch, cast(is_new as bigint) as z,
    cast(y as decimal(38, 0)) as y, cast(x as decimal(38, 0)) as x,
    cast(y0 as decimal(38, 0)) as y0, cast(x0 as decimal(38, 0)) as x0
  from metric
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y, cast(sum(x) as varchar) as x, cast(sum(y0) as varchar) as y0,
  cast(sum(x0) as varchar) as x0, cast(sum(z) as varchar) as z, cast(sum(y * y) as varchar) as y_y,
  cast(sum(y * x) as varchar) as y_x, cast(sum(y * y0) as varchar) as y_y0,
  cast(sum(y * x0) as varchar) as y_x0, cast(sum(y * z) as varchar) as y_z,
  cast(sum(x * x) as varchar) as x_x, cast(sum(x * y0) as varchar) as x_y0,
  cast(sum(x * x0) as varchar) as x_x0, cast(sum(x * z) as varchar) as x_z,
  cast(sum(y0 * y0) as varchar) as y0_y0, cast(sum(y0 * x0) as varchar) as y0_x0,
  cast(sum(y0 * z) as varchar) as y0_z, cast(sum(x0 * x0) as varchar) as x0_x0,
  cast(sum(x0 * z) as varchar) as x0_z, cast(sum(z * z) as varchar) as z_z,
  cast(sum(y * y * y) as varchar) as y_y_y, cast(sum(y * y * x) as varchar) as y_y_x,
  cast(sum(y * y * y0) as varchar) as y_y_y0, cast(sum(y * y * x0) as varchar) as y_y_x0,
  cast(sum(y * x * x) as varchar) as y_x_x, cast(sum(y * x * y0) as varchar) as y_x_y0,
  cast(sum(y * x * x0) as varchar) as y_x_x0, cast(sum(y * y0 * y0) as varchar) as y_y0_y0,
  cast(sum(y * y0 * x0) as varchar) as y_y0_x0, cast(sum(y * x0 * x0) as varchar) as y_x0_x0,
  cast(sum(x * x * x) as varchar) as x_x_x, cast(sum(x * x * y0) as varchar) as x_x_y0,
  cast(sum(x * x * x0) as varchar) as x_x_x0, cast(sum(x * y0 * y0) as varchar) as x_y0_y0,
  cast(sum(x * y0 * x0) as varchar) as x_y0_x0, cast(sum(x * x0 * x0) as varchar) as x_x0_x0,
  cast(sum(y0 * y0 * y0) as varchar) as y0_y0_y0, cast(sum(y0 * y0 * x0) as varchar) as y0_y0_x0,
  cast(sum(y0 * x0 * x0) as varchar) as y0_x0_x0, cast(sum(x0 * x0 * x0) as varchar) as x0_x0_x0,
  cast(sum(y * y * z) as varchar) as y_y_z, cast(sum(y * x * z) as varchar) as y_x_z,
  cast(sum(x * x * z) as varchar) as x_x_z
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
