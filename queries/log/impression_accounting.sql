-- grain: one row per phase and reason why impressions are set aside, null for those that are not
-- reads: logged_cells
select set_aside as reason, in_period, cast(sum(c_1) as bigint) as impressions
from logged_cells
group by set_aside, in_period
order by set_aside, in_period
