-- grain: one row per unit and team; an empty one for items that are nobody's
-- reads: credited (unit_id, team, v_ columns: what a row is worth, in whole steps)
select unit_id, coalesce(team, '') as team, cast(sum(columns('^v_')) as bigint)
from credited
group by unit_id, team
