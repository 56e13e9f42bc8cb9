-- grain: one row per reason; null is the impressions that may count
-- reads: seen
select set_aside as reason, in_period, count(*) as impressions
from seen
group by set_aside, in_period
order by set_aside, in_period
