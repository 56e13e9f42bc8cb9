-- grain: one row per side, group of units and tenth of the candidate's scores: rows, and unlearned ones
-- reads: agreement_served (side, cluster, item_id, state, treated, click, candidate), training_items (
--   item_id, policy, trained)
-- The training data hardly have an item with fewer than ten rows: they do not tell its click rate.
with learned as (
  select item_id
  from training_items
  group by item_id
  having sum(trained) >= 10
),
ranked as (
  select side, cluster, click, cast(item_id as varchar) as item, candidate
  from agreement_served
  where state <> 'failed' and coalesce(treated, 1) = 1 and item_id is not null
    and candidate is not null
),
candidates as (
  select
    side, candidate,
    cast(sum(count(*)) over (partition by side order by candidate) - count(*) as double)
      / nullif(sum(count(*)) over (partition by side) - 1, 0) as share_below
  from ranked
  group by side, candidate
),
placed as (
  select
    r.side, r.cluster, r.click, r.item,
    cast(floor(9.99e0 * coalesce(c.share_below, 0)) as bigint) as tenth
  from ranked r
  join candidates c on r.side = c.side and r.candidate = c.candidate
)
select
  p.side, p.cluster, p.tenth, count(*) as impressions, cast(sum(p.click) as bigint) as clicks,
  cast(sum(case when l.item_id is null then 1 else 0 end) as bigint) as unlearned,
  cast(sum(case when l.item_id is null then p.click else 0 end) as bigint) as unlearned_clicks
from placed p
left join learned l on p.item = l.item_id
group by p.side, p.cluster, p.tenth
