-- grain: one row per reason and phase; null is the impressions that may count
-- reads: logged_cells
select set_aside as reason, in_period, cast(sum(c_1) as bigint) as impressions
from logged_cells
group by set_aside, in_period
order by set_aside, in_period
