-- grain: one row per logged variant and local hour: its impressions without a unit, and all
-- reads: logged_cells
select
  variant, hour,
  cast(sum(case when set_aside = 'null_unit' then c_1 else 0 end) as bigint) as nameless,
  cast(sum(c_1) as bigint) as impressions
from logged_cells
where variant is not null and hour is not null
group by 1, 2
