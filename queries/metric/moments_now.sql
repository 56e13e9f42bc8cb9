-- grain: one row per part, cell, variant and stretch: exact sums over its units, of products
-- of two and of three, where nothing from before the period is wanted
-- reads: metric (part, cell, variant, stretch, y, x: whole numbers, one row per unit and part)
-- as metric/moments, at a third of its cost
with wide as (
  select
    part, cell, variant, stretch, cast(y as decimal(38, 0)) as y, cast(x as decimal(38, 0)) as x
  from metric
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y, cast(sum(x) as varchar) as x, cast(sum(y * y) as varchar) as y_y,
  cast(sum(y * x) as varchar) as y_x, cast(sum(x * x) as varchar) as x_x,
  cast(sum(y * y * y) as varchar) as y_y_y, cast(sum(y * y * x) as varchar) as y_y_x,
  cast(sum(y * x * x) as varchar) as y_x_x, cast(sum(x * x * x) as varchar) as x_x_x
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
