-- grain: one row per part, cell, variant and stretch: exact sums over its units, of squares
-- and of cubes, where nothing from before the period is wanted
-- reads: metric (part, cell, variant, stretch, y: whole numbers, one row per unit and part)
-- as metric/moments_now, where every unit has the denominator 1
with wide as (
  select part, cell, variant, stretch, cast(y as decimal(38, 0)) as y
  from metric
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y, cast(sum(y * y) as varchar) as y_y,
  cast(sum(y * y * y) as varchar) as y_y_y
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
