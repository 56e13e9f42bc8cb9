-- grain: one row per variant that the experiment does not name, with its impressions in the period
-- reads: logged_cells, unit_day, candidates
with others as (
  select variant, c_1 as impressions from logged_cells where set_aside = 'not_compared'
  union all
  select c.variant, d.c_1 as impressions
  from unit_day d
  join candidates c on d.unit_id = c.unit_id
  where c.set_aside = 'no_variant' and d.in_period
)
select variant, cast(sum(impressions) as bigint) as impressions
from others
where variant is not null
group by variant
order by impressions desc, variant
