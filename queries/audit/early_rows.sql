-- grain: one row per half hour before the exposure of their unit in which rows of an outcome log lie
-- reads: outcome_rows (the result of 3_rows/outcomes)
-- of units whose exposure is 15 hours after the first row of the log: rows 15 hours earlier would be there
select cast(floor(-since_ms / 1800000.0e0) as bigint) as half_hours, count(*) as events
from outcome_rows
where set_aside = 'before_exposure'
  and time_ms - since_ms >= (select min(time_ms) + 54000000 from outcome_rows where in_period)
group by 1
