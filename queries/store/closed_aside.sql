-- grain: one row per reason and phase: impressions set aside on all days up to the last closed one
-- reads: logged_cells, closing (last_day)
select set_aside, in_period, cast(sum(c_1) as bigint) as c_1
from logged_cells
cross join closing
where set_aside is not null and (day is null or day <= last_day)
group by set_aside, in_period
