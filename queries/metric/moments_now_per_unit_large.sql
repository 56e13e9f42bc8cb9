-- grain: one row per part, cell, variant and stretch: exact sums over its units, of squares
-- and of cubes, where nothing from before the period is wanted
-- reads: metric (part, cell, variant, stretch, y: whole numbers, one row per unit and part)
-- as metric/moments_now_per_unit, for values whose cubes do not fit 128 bits: split as in metric/moments_large
with whole as (
  select
    part, cell, variant, stretch, cast(y as bigint) as y
  from metric
),
split as (
  select
    part, cell, variant, stretch, y,
    y % 1000000000 as y_low, round((y - y % 1000000000) / 1000000000.0e0) as y_high
  from whole
),
wide as (
  select
    part, cell, variant, stretch,
    cast(y as decimal(38, 0)) as y,
    cast(y_low as decimal(38, 0)) as y_low, cast(y_high as decimal(38, 0)) as y_high
  from split
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y,
  cast(sum(y * y) as varchar) as y_y,
  cast(sum(y_high * y_high * y) as varchar) as y_y_y_hh,
  cast(sum(y_high * y_low * y) as varchar) as y_y_y_hl,
  cast(sum(y_low * y_high * y) as varchar) as y_y_y_lh,
  cast(sum(y_low * y_low * y) as varchar) as y_y_y_ll
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
