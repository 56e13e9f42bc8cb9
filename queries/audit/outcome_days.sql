-- grain: one row per unit and local day of the period with rows of an outcome log that count
-- reads: outcome_values (unit_id, in_period, set_aside, day, and v_…, what a row is worth)
select
  unit_id, cast(date_diff('day', date '1970-01-01', day) as bigint) as day, count(*) as events,
  cast(sum(columns('^v_(.*)$')) as bigint) as 'v_\1'
from outcome_values
where in_period and set_aside is null
group by unit_id, day
