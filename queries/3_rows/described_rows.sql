-- grain: one row per distinct row of the table of units, with the reason where it does not count
-- reads: unit_log (logged_id, copies, s_, u_ and v_ columns), unit_names (the analysed units)
-- of rows of a unit that differ, nothing says which is the unit's
with counted as (
  select *, count(*) over (partition by logged_id) as rows_of_unit
  from unit_log
)
select
  n.unit_id as known_unit_id, r.copies,
  case
    when r.logged_id is null then 'null_unit'
    when r.rows_of_unit > 1 then 'repeated_unit'
    when n.unit_id is null then 'not_in_experiment'
  end as set_aside,
  columns('^[suv]_')
from counted r
left join unit_names n on r.logged_id = n.logged_id
