-- grain: one row per part, cell, variant and stretch: exact sums over its units, of products
-- of two and of three, where nothing from before the period is wanted
-- reads: metric (part, cell, variant, stretch, y, x: whole numbers, one row per unit and part)
-- as metric/moments_now, for values whose cubes do not fit 128 bits: split as in metric/moments_large
with whole as (
  select
    part, cell, variant, stretch, cast(y as bigint) as y, cast(x as bigint) as x
  from metric
),
split as (
  select
    part, cell, variant, stretch, y, x,
    y % 1000000000 as y_low, round((y - y % 1000000000) / 1000000000.0e0) as y_high,
    x % 1000000000 as x_low, round((x - x % 1000000000) / 1000000000.0e0) as x_high
  from whole
),
wide as (
  select
    part, cell, variant, stretch,
    cast(y as decimal(38, 0)) as y, cast(x as decimal(38, 0)) as x,
    cast(y_low as decimal(38, 0)) as y_low, cast(y_high as decimal(38, 0)) as y_high,
    cast(x_low as decimal(38, 0)) as x_low, cast(x_high as decimal(38, 0)) as x_high
  from split
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y,
  cast(sum(x) as varchar) as x,
  cast(sum(y * y) as varchar) as y_y,
  cast(sum(y * x) as varchar) as y_x,
  cast(sum(x * x) as varchar) as x_x,
  cast(sum(y_high * y_high * y) as varchar) as y_y_y_hh,
  cast(sum(y_high * y_low * y) as varchar) as y_y_y_hl,
  cast(sum(y_low * y_high * y) as varchar) as y_y_y_lh,
  cast(sum(y_low * y_low * y) as varchar) as y_y_y_ll,
  cast(sum(y_high * y_high * x) as varchar) as y_y_x_hh,
  cast(sum(y_high * y_low * x) as varchar) as y_y_x_hl,
  cast(sum(y_low * y_high * x) as varchar) as y_y_x_lh,
  cast(sum(y_low * y_low * x) as varchar) as y_y_x_ll,
  cast(sum(y_high * x_high * x) as varchar) as y_x_x_hh,
  cast(sum(y_high * x_low * x) as varchar) as y_x_x_hl,
  cast(sum(y_low * x_high * x) as varchar) as y_x_x_lh,
  cast(sum(y_low * x_low * x) as varchar) as y_x_x_ll,
  cast(sum(x_high * x_high * x) as varchar) as x_x_x_hh,
  cast(sum(x_high * x_low * x) as varchar) as x_x_x_hl,
  cast(sum(x_low * x_high * x) as varchar) as x_x_x_lh,
  cast(sum(x_low * x_low * x) as varchar) as x_x_x_ll
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
