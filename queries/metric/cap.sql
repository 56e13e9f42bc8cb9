-- grain: one row: the value below which the share `level` of all units lie, of numerator and of
-- denominator: the next larger value that occurs, over all variants together, zeros included
-- reads: metric (y, x), cap_level (level)
with ranked as (
  select
    y, x,
    row_number() over (order by y) as y_rank,
    row_number() over (order by x) as x_rank,
    count(*) over () as units
  from metric
)
select
  min(case when y_rank >= 1 + level * (units - 1) then y end) as y_cap,
  min(case when x_rank >= 1 + level * (units - 1) then x end) as x_cap
from ranked
cross join cap_level
