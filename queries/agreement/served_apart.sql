-- grain: one row per side, group of units and state: rows whose served score is not the model's own
-- reads: agreement_served (side, cluster, state, position, click, own, served_score, apart)
-- Rows are apart by themselves. They are unexplained if they are also apart from the mean of their
-- position, less that of the position where it is smallest: what differs by position alone is left to
-- the position.
with places as (
  select
    side, coalesce(position, 0) as place,
    cast(sum(cast(round(1e12 * apart) as bigint)) as double) / nullif(1e12 * count(*), 0) as shift
  from agreement_served
  where state = 'plain' and apart is not null
  group by side, coalesce(position, 0)
),
ordered as (
  select
    side, place, shift,
    row_number() over (partition by side order by abs(shift), place) as nearest
  from places
),
shifts as (
  select o.side, o.place, o.shift - l.shift as shift
  from ordered o
  join ordered l on o.side = l.side and l.nearest = 1
),
compared as (
  select
    r.side, r.cluster, r.state, r.click, r.apart, r.own, r.served_score,
    case when abs(r.apart) > 0.01e0 then 1 else 0 end as differs,
    case when abs(r.apart) > 0.01e0 and abs(r.apart - coalesce(p.shift, 0)) > 0.01e0 then 1 else 0
      end as differs_within
  from agreement_served r
  left join shifts p on r.side = p.side and coalesce(r.position, 0) = p.place
)
select
  side, cluster, state, count(*) as impressions, cast(sum(click) as bigint) as clicks,
  count(apart) as compared, cast(sum(differs) as bigint) as apart,
  cast(sum(differs_within) as bigint) as unexplained,
  cast(sum(case when own is not null and served_score is null then 1 else 0 end) as bigint)
    as unserved
from compared
group by side, cluster, state
