-- grain: one row per unit and team
-- reads: credited (unit_id, team, v_ columns: what a row is worth, in whole steps)
select unit_id, team, cast(sum(columns('^v_')) as bigint)
from credited
where team is not null
group by unit_id, team
