-- grain: one row per unit of the target variant: its clicks and impressions
-- reads: served, comparison (target)
select s.unit_id, cast(sum(s.click) as bigint) as clicks, count(*) as impressions
from served s
join comparison c on s.variant = c.target
group by s.unit_id
order by s.unit_id
