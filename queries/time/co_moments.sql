-- grain: one row per variant, entry day and pair of days (a day with itself included): sums, over
-- the units active on both, of products of a value of the one day with a value of the other
-- reads: day_pair (variant, entry_day, day, later_day, p_ columns: whole numbers)
-- the sums over units of every window, and the covariance of any two windows, follow from these;
-- exact integers are returned as text
select
  variant, cast(entry_day as varchar) as cohort, cast(day as varchar) as day,
  cast(later_day as varchar) as later_day, cast(sum(columns('^p_')) as varchar)
from day_pair
group by variant, entry_day, day, later_day
order by variant, cohort, day, later_day
