-- grain: one row: the first and the last time of the day (UTC, in ms) of an outcome log, null where a time
-- is no whole quarter of an hour, and its days
-- reads: outcome_rows (the result of 3_rows/outcomes)
select
  min(time_ms % 86400000) as first_ms,
  max(time_ms % 86400000) as last_ms,
  case when sum(time_ms % 900000) = 0 then count(distinct day) end as days
from outcome_rows
where time_ms is not null
