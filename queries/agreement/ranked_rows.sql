-- grain: one row per impression that a model ranked, with both scores as one of 24 ranks
-- reads: agreement_served (side, cluster, state, treated, position, click, learned, baseline,
--   candidate, served_score, item_id, category)
-- b and c rank the baseline and the candidate among the rows of both variants, s the score that
-- served among those of the variant; 0 is the lowest, equal scores share their mean rank. Where the
-- log has no served score, the model's own has served.
with ranked as (
  select
    side, cluster, position, click, learned, cast(item_id as varchar) as item,
    cast(category as varchar) as category, baseline, candidate,
    case when max(served_score) over () is null then candidate else served_score end as served
  from agreement_served
  where state <> 'failed' and coalesce(treated, 1) = 1
    and baseline is not null and candidate is not null
),
places as (
  select
    side, cluster, position, click, learned, item, category,
    count(*) over () as n, count(*) over (partition by side) as side_n,
    rank() over (order by baseline) as b_rank, count(*) over (partition by baseline) as b_ties,
    rank() over (order by candidate) as c_rank, count(*) over (partition by candidate) as c_ties,
    rank() over (partition by side order by served) as s_rank,
    count(*) over (partition by side, served) as s_ties
  from ranked
  where served is not null
)
select
  side, cast(cluster % 16 as bigint) as part, cast(position as bigint) as position, click, learned,
  item, category,
  cast(floor(24 * (b_rank + 0.5e0 * b_ties - 1) / nullif(n, 0)) as bigint) as b,
  cast(floor(24 * (c_rank + 0.5e0 * c_ties - 1) / nullif(n, 0)) as bigint) as c,
  case when side = 'variant' then cast(floor(24 * (s_rank + 0.5e0 * s_ties - 1) / nullif(side_n, 0)) as bigint)
    else 0 end as s
from places
