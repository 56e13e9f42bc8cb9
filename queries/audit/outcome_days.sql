-- grain: one row per unit and local day of the period with rows of an outcome log that count
-- reads: outcome_rows (the result of 3_rows/outcomes)
select unit_id, cast(date_diff('day', date '1970-01-01', day) as bigint) as day, count(*) as events
from outcome_rows
where in_period and set_aside is null
group by 1, 2
