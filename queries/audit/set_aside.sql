-- grain: one row per logged variant, local day and reason why impressions are set aside, empty for none
-- reads: logged_cells
select
  variant, day, coalesce(set_aside, '') as reason,
  cast(sum(c_1) as bigint) as impressions
from logged_cells
where variant is not null and day is not null
group by 1, 2, 3
