-- grain: one row per part, cell, variant and stretch: exact sums over its units, of products of
-- two and of three
-- reads: metric (part, cell, variant, stretch, y, y0, is_new: whole numbers, one row per unit and part)
-- as metric/moments_per_unit, for values whose cubes do not fit 128 bits: split as in metric/moments_large
with whole as (
  select
    part, cell, variant, stretch, cast(is_new as bigint) as z,
    cast(y as bigint) as y, cast(y0 as bigint) as y0
  from metric
),
split as (
  select
    part, cell, variant, stretch, z, y, y0,
    y % 1000000000 as y_low, round((y - y % 1000000000) / 1000000000.0e0) as y_high,
    y0 % 1000000000 as y0_low, round((y0 - y0 % 1000000000) / 1000000000.0e0) as y0_high
  from whole
),
wide as (
  select
    part, cell, variant, stretch, z,
    cast(y as decimal(38, 0)) as y, cast(y0 as decimal(38, 0)) as y0,
    cast(y_low as decimal(38, 0)) as y_low, cast(y_high as decimal(38, 0)) as y_high,
    cast(y0_low as decimal(38, 0)) as y0_low, cast(y0_high as decimal(38, 0)) as y0_high
  from split
)
select
  part, cell, variant, stretch, count(*) as units,
  cast(sum(y) as varchar) as y,
  cast(sum(y0) as varchar) as y0,
  cast(sum(z) as varchar) as z,
  cast(sum(y * y) as varchar) as y_y,
  cast(sum(y * y0) as varchar) as y_y0,
  cast(sum(y * z) as varchar) as y_z,
  cast(sum(y0 * y0) as varchar) as y0_y0,
  cast(sum(y0 * z) as varchar) as y0_z,
  cast(sum(z * z) as varchar) as z_z,
  cast(sum(y_high * y_high * y) as varchar) as y_y_y_hh,
  cast(sum(y_high * y_low * y) as varchar) as y_y_y_hl,
  cast(sum(y_low * y_high * y) as varchar) as y_y_y_lh,
  cast(sum(y_low * y_low * y) as varchar) as y_y_y_ll,
  cast(sum(y_high * y_high * y0) as varchar) as y_y_y0_hh,
  cast(sum(y_high * y_low * y0) as varchar) as y_y_y0_hl,
  cast(sum(y_low * y_high * y0) as varchar) as y_y_y0_lh,
  cast(sum(y_low * y_low * y0) as varchar) as y_y_y0_ll,
  cast(sum(y_high * y0_high * y0) as varchar) as y_y0_y0_hh,
  cast(sum(y_high * y0_low * y0) as varchar) as y_y0_y0_hl,
  cast(sum(y_low * y0_high * y0) as varchar) as y_y0_y0_lh,
  cast(sum(y_low * y0_low * y0) as varchar) as y_y0_y0_ll,
  cast(sum(y0_high * y0_high * y0) as varchar) as y0_y0_y0_hh,
  cast(sum(y0_high * y0_low * y0) as varchar) as y0_y0_y0_hl,
  cast(sum(y0_low * y0_high * y0) as varchar) as y0_y0_y0_lh,
  cast(sum(y0_low * y0_low * y0) as varchar) as y0_y0_y0_ll,
  cast(sum(y_high * y_high * z) as varchar) as y_y_z_hh,
  cast(sum(y_high * y_low * z) as varchar) as y_y_z_hl,
  cast(sum(y_low * y_high * z) as varchar) as y_y_z_lh,
  cast(sum(y_low * y_low * z) as varchar) as y_y_z_ll
from wide
group by part, cell, variant, stretch
order by part, cell, variant, stretch
