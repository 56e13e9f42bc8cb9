-- grain: one row per impression that a model ranked, with both scores as one of 24 ranks
-- reads: agreement_served (side, cluster, state, treated, position, click, learned, baseline,
--   candidate, served_score, item_id, category)
-- b and c rank the baseline and the candidate among the rows of both variants, s the score that
-- served among those of the variant; 0 is the lowest, equal scores share their mean rank. Where the
-- log has no served score, the model's own has served. Twice a mean rank is twice the rows up to its
-- score, less those of the score.
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
    case when l.rows_served = 0 then r.candidate else r.served_score end as served
  from ranked r
  cross join logged l
  where l.rows_served = 0 or r.served_score is not null
),
sizes as (
  select count(*) as n, sum(case when side = 'variant' then 1 else 0 end) as side_n
  from served
),
baselines as (
  select
    baseline,
    2 * sum(count(*)) over (order by baseline rows unbounded preceding) - count(*) as twice
  from served
  group by baseline
),
candidates as (
  select
    candidate,
    2 * sum(count(*)) over (order by candidate rows unbounded preceding) - count(*) as twice
  from served
  group by candidate
),
serveds as (
  select
    side, served,
    2 * sum(count(*)) over (order by served rows unbounded preceding) - count(*) as twice
  from served
  where side = 'variant'
  group by side, served
)
select
  p.side, cast(p.cluster % 16 as bigint) as part, cast(p.position as bigint) as position, p.click,
  p.learned, p.item, p.category,
  cast(floor(24 * (0.5e0 * b.twice) / nullif(z.n, 0)) as bigint) as b,
  cast(floor(24 * (0.5e0 * c.twice) / nullif(z.n, 0)) as bigint) as c,
  case when p.side = 'variant' then cast(floor(24 * (0.5e0 * s.twice) / nullif(z.side_n, 0)) as bigint)
    else 0 end as s
from served p
join baselines b on p.baseline = b.baseline
join candidates c on p.candidate = c.candidate
left join serveds s on p.side = s.side and p.served = s.served
cross join sizes z
