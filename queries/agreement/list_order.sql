-- grain: one row per side, group of units, rank by score and place in the list: rows and clicks
-- reads: agreement_served (side, cluster, unit_id, request_id, position, state, treated, click, learned,
--   own, served_score)
-- The score is the served one where the log has it, else the model's own; of equal scores any order
-- is right. Ranks and places from the 20th on are one. An own score that has learned a row's click is
-- not the one that ordered it.
with scored as (
  select
    side, cluster, unit_id, request_id, position, click,
    case when max(served_score) over () is null then own else served_score end as score
  from agreement_served
  where state in ('plain', 'late') and coalesce(treated, 1) = 1
    and request_id is not null and position is not null
    and (learned = 0 or served_score is not null)
),
placed as (
  select
    side, cluster, unit_id, request_id, position, click, score,
    row_number() over (
      partition by side, unit_id, request_id order by position, score desc, click
    ) as place
  from scored
  where score is not null
),
listed as (
  select
    side, cluster, click, least(place, 20) as place,
    -- rows that are alike have both numbers in one order, so that each run pairs them alike
    least(
      row_number() over (
        partition by side, unit_id, request_id order by score desc, position, click, place
      ), 20
    ) as score_rank
  from placed
)
select
  side, cluster, cast(score_rank as bigint) as score_rank, cast(place as bigint) as place,
  count(*) as impressions, cast(sum(click) as bigint) as clicks
from listed
group by side, cluster, score_rank, place
