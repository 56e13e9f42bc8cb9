-- grain: one row per part, cell, variant and stretch: exact sums over its units, of products of
-- two and of three
-- reads: metric (part, cell, variant, stretch, y, y0, is_new: whole numbers, one row per unit and part)
-- as metric/moments, where every unit has the denominator 1, at a third of its cost
with wide as (
  select
    part, cell, variant, stretch, cast(is_new as bigint) as z,
    cast(y as decimal(38, 0)) as y, cast(y0 as decimal(38, 0)) as y0
  from metric
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y, cast(sum(y0) as varchar) as y0, cast(sum(z) as varchar) as z,
  cast(sum(y * y) as varchar) as y_y, cast(sum(y * y0) as varchar) as y_y0,
  cast(sum(y * z) as varchar) as y_z, cast(sum(y0 * y0) as varchar) as y0_y0,
  cast(sum(y0 * z) as varchar) as y0_z, cast(sum(z * z) as varchar) as z_z,
  cast(sum(y * y * y) as varchar) as y_y_y, cast(sum(y * y * y0) as varchar) as y_y_y0,
  cast(sum(y * y0 * y0) as varchar) as y_y0_y0, cast(sum(y0 * y0 * y0) as varchar) as y0_y0_y0,
  cast(sum(y * y * z) as varchar) as y_y_z
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
