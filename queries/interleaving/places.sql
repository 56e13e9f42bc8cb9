-- grain: one row per position
-- reads: interleaved (position, click)
select position, count(*) as shown, cast(sum(click) as bigint) as clicks
from interleaved
where position is not null
group by position
order by position
