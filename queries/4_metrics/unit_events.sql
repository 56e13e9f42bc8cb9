-- grain: one row per analysed unit and phase: what its rows of a log are worth together
-- reads: unit_event (unit_id, in_period, sum_…, max_…, distinct_…: what a row is worth, null for nothing)
select
  unit_id, in_period,
  cast(sum(columns('^sum_(.*)$')) as bigint) as 'c_\1',
  max(columns('^max_(.*)$')) as 'c_\1',
  count(distinct columns('^distinct_(.*)$')) as 'c_\1'
from unit_event
group by unit_id, in_period
