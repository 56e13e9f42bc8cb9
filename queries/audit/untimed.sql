-- grain: one row per audited unit: impressions, and those of them without a time
-- reads: logged_cells, audited_names
select
  u.unit_id, cast(sum(c.c_1) as bigint) as impressions,
  cast(sum(case when c.set_aside = 'null_time' then c.c_1 else 0 end) as bigint) as untimed
from logged_cells c
join audited_names u on c.unit_id = u.logged_id
group by u.unit_id
