-- grain: one row per unit with an impression of the period that counts: a number, and its id as logged
-- reads: logged_cells
-- abeval numbers units over arrays, in another order; `abeval tools sql` writes this for the user's warehouse
with logged as (
  select distinct unit_id as logged_id
  from logged_cells
  where set_aside is null and in_period
)
select logged_id, row_number() over (order by logged_id) - 1 as unit_id
from logged
