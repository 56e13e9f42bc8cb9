-- grain: one row per moved unit and closed day of the period on which it has an impression
-- reads: moved_cells, moved_units
select
  m.unit_id, c.day, m.placed, m.variant, 1 as c_days, cast(sum(columns('^c_[0-9]+$')) as bigint)
from moved_cells c
join moved_units m on c.unit_id = m.logged_id
where c.set_aside is null and c.in_period
group by m.unit_id, c.day, m.placed, m.variant
