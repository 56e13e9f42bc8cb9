-- grain: one row per variant, group of units, and first and last position: lists, and positions that
-- they lack in between
-- reads: audited_lists, audited_units
select
  u.variant, u.cluster, l.first_place, l.last_place, count(*) as lists,
  cast(sum(l.holes) as bigint) as holes
from audited_lists l
join audited_units u on l.unit_id = u.unit_id
group by u.variant, u.cluster, l.first_place, l.last_place
