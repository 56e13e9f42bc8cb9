-- grain: one row per part, variant and values that its units have, with how many have them
-- reads: valued_unit (part, variant, y, x, y0, x0, is_new: whole numbers, one row per unit and part)
-- a part with more than 1000 rows is left out
with wide as (
  select
    part, variant, cast(y as double) as y, cast(x as double) as x,
    cast(y0 as double) as y0, cast(x0 as double) as x0, cast(is_new as double) as z
  from valued_unit
),
counted as (
  select part, variant, y, x, y0, x0, z, count(*) as units
  from wide
  group by part, variant, y, x, y0, x0, z
),
sized as (
  select part, variant, y, x, y0, x0, z, units, count(*) over (partition by part) as size
  from counted
)
select part, variant, y, x, y0, x0, z, units
from sized
where size <= 1000
order by part, variant, y, x, y0, x0, z
