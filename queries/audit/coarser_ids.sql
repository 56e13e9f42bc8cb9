-- grain: one row per number of units and of variants that ids of a coarser kind have
-- reads: identified_rows (id, unit_id, variant)
with ids as (
  select id, count(distinct unit_id) as units, count(distinct variant) as variants
  from identified_rows
  where id is not null
  group by id
)
select units, variants, count(*) as ids
from ids
where units > 1
group by units, variants
