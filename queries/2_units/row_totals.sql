-- grain: one row per row that counts, each a unit of its own, and one more for its day
-- reads: logged_cells, variants, spans (is_day: 0, and 1 for days)
-- as 2_units/totals, where no unit has several rows
select
  c.variant, case when is_day = 1 then day end as on_day, 1 as is_new,
  case when day is null then 0 else 1 end as c_days, 0 as b_c_days,
  columns('^c_[0-9]'), 0 * coalesce(columns('^c_[0-9]'), 0) as "b_\0"
from logged_cells c
join variants v on c.variant = v.variant
cross join spans
where set_aside is null and in_period and (is_day = 0 or day is not null)
