-- grain: one row per variant, group of units and position: lists that lack it, but go on behind it
-- reads: audited_lists, audited_units, list_places (place)
select u.variant, u.cluster, p.place, count(*) as lists
from audited_lists l
join audited_units u on l.unit_id = u.unit_id
join list_places p on p.place between l.first_place and l.last_place
where l.holes <> 0 and (l.places & (cast(1 as bigint) << cast(p.place as int))) = 0
group by u.variant, u.cluster, p.place
