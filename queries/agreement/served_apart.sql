-- grain: one row per side, group of units and state: rows whose served score is not the model's own
-- reads: agreement_served (side, cluster, state, position, click, own, served_score, apart)
-- What differs by position alone is left to the position: the mean of each is taken away, but for
-- that of the position where it is smallest.
with places as (
  select side, coalesce(position, 0) as place, avg(apart) as shift
  from agreement_served
  where state = 'plain' and apart is not null
  group by side, coalesce(position, 0)
),
ordered as (
  select
    side, place, shift,
    first_value(shift) over (partition by side order by abs(shift), place) as least
  from places
)
select
  r.side, r.cluster, r.state, count(*) as impressions, cast(sum(r.click) as bigint) as clicks,
  count(r.apart) as compared,
  cast(sum(case when abs(r.apart) > 0.01e0 then 1 else 0 end) as bigint) as apart,
  cast(sum(case when abs(r.apart - coalesce(p.shift - p.least, 0)) > 0.01e0 then 1 else 0 end)
    as bigint) as unexplained,
  cast(sum(case when r.own is not null and r.served_score is null then 1 else 0 end) as bigint)
    as unserved
from agreement_served r
left join ordered p on r.side = p.side and coalesce(r.position, 0) = p.place
group by r.side, r.cluster, r.state
