-- grain: one row per side, group of units and missing category: rows, wanted ones, and missing ones
-- reads: agreement_served (side, cluster, unit_id, request_id, item_id, category, state, treated,
--   click, candidate)
-- Requests of both sides are alike if their best scores have the same place among those of their
-- side, in ten levels: units are assigned at random. A row of control is wanted if the candidate's
-- score of it is at least the middle one of what the variant shows in requests like it. An item or a
-- category is missing if the variant, had it shown it as often as control has wanted rows of it,
-- would have 20 impressions, and it has at most a tenth of those.
with scored as (
  select
    side, cluster, unit_id, request_id, cast(item_id as varchar) as item,
    cast(category as varchar) as category, click, candidate
  from agreement_served
  where state <> 'failed' and coalesce(treated, 1) = 1 and candidate is not null
),
requests as (
  select
    side, unit_id, request_id,
    floor(9.99e0 * percent_rank() over (partition by side order by max(candidate))) as level
  from scored
  group by side, unit_id, request_id
),
placed as (
  select
    s.side, s.cluster, s.item, s.category, s.click, s.candidate, r.level,
    percent_rank() over (partition by s.side, r.level order by s.candidate) as place
  from scored s
  join requests r
    on s.side = r.side and s.unit_id = r.unit_id
    and s.request_id is not distinct from r.request_id
),
middle as (
  select level, min(candidate) as score
  from placed
  where side = 'variant' and place >= 0.5e0
  group by level
),
compared as (
  select
    p.side, p.cluster, p.item, p.category, p.click,
    case when p.side = 'variant' then 1 else 0 end as shown,
    case when p.side = 'control' and p.candidate >= m.score then 1 else 0 end as wanted
  from placed p
  left join middle m on p.level = m.level
),
totals as (
  select cast(sum(shown) as double) / nullif(sum(1 - shown), 0) as share
  from compared
),
cells as (
  select 'item' as kind, item as cell, sum(wanted) as wanted, sum(shown) as shown
  from compared
  where item is not null
  group by item
  union all
  select 'category' as kind, category as cell, sum(wanted) as wanted, sum(shown) as shown
  from compared
  where category is not null
  group by category
),
missing as (
  select c.kind, c.cell
  from cells c
  cross join totals t
  where c.wanted * t.share >= 20 and 10 * c.shown <= c.wanted * t.share
)
select
  c.side, c.cluster, k.cell as category,
  count(*) as impressions, cast(sum(c.click) as bigint) as clicks,
  cast(sum(c.wanted) as bigint) as wanted,
  cast(sum(case when i.cell is null and k.cell is null then 0 else c.wanted end) as bigint)
    as missing,
  cast(sum(case when i.cell is null and k.cell is null then 0 else c.wanted * c.click end) as bigint)
    as missing_clicks
from compared c
left join missing i on i.kind = 'item' and c.item = i.cell
left join missing k on k.kind = 'category' and c.category = k.cell
group by c.side, c.cluster, k.cell
