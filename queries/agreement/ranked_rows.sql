-- grain: one row per impression that a model ranked, with both scores as one of 24 ranks
-- reads: agreement_served (side, cluster, state, treated, position, click, learned, baseline,
--   candidate, served_score, item_id, category)
-- b and c rank the baseline and the candidate among the rows of both variants, s the score that
-- served among those of the variant; 0 is the lowest, equal scores share their mean rank. Where the
-- log has no served score, the model's own has served. Twice a mean rank is a rank plus the rows up
-- to its score.
with ranked as (
  select
    side, cluster, position, click, learned, cast(item_id as varchar) as item,
    cast(category as varchar) as category, baseline, candidate, served_score
  from agreement_served
  where state <> 'failed' and coalesce(treated, 1) = 1
    and baseline is not null and candidate is not null
),
logged as (
  select count(served_score) as rows_served from ranked
),
served as (
  select
    r.side, r.cluster, r.position, r.click, r.learned, r.item, r.category, r.baseline, r.candidate,
    case when l.rows_served = 0 then r.candidate else r.served_score end as served,
    case when r.side = 'variant' then 1 else 0 end as is_variant
  from ranked r
  cross join logged l
),
sizes as (
  select count(*) as n, sum(is_variant) as side_n
  from served
  where served is not null
),
places as (
  select
    side, is_variant, cluster, position, click, learned, item, category,
    rank() over (order by baseline) + count(*) over (order by baseline) - 1 as b_twice,
    rank() over (order by candidate) + count(*) over (order by candidate) - 1 as c_twice,
    rank() over (partition by is_variant order by served)
      + count(*) over (partition by is_variant order by served) - 1 as s_twice
  from served
  where served is not null
)
select
  p.side, cast(p.cluster % 16 as bigint) as part, cast(p.position as bigint) as position, p.click,
  p.learned, p.item, p.category,
  cast(floor(24 * (0.5e0 * p.b_twice) / nullif(z.n, 0)) as bigint) as b,
  cast(floor(24 * (0.5e0 * p.c_twice) / nullif(z.n, 0)) as bigint) as c,
  case when p.is_variant = 1 then cast(floor(24 * (0.5e0 * p.s_twice) / nullif(z.side_n, 0)) as bigint)
    else 0 end as s
from places p
cross join sizes z
