-- grain: one row per phase and reason why rows of an outcome log do not count, null for those that do;
-- duplicates are exact copies
-- reads: outcome_rows (the result of 3_rows/outcomes)
select
  set_aside as reason, in_period, count(*) as events, cast(sum(copies - 1) as bigint) as duplicates
from outcome_rows
group by set_aside, in_period
order by set_aside, in_period
