-- grain: one row per unit and day of the period with both a click and an impression without
-- reads: scored_day (variant, unit_id, day, score of the served model, click)
-- AUC of a unit within a day, ties half: by pairs of a click and a non-click where they are few, by
-- rank sums where they are many
with sized as (
  select unit_id, day, count(*) as n, sum(click) as p
  from scored_day
  group by unit_id, day
),
judged as (
  select unit_id, day, n, p, p * (n - p) > 1000 as is_heavy
  from sized
  where p not in (0, n)
),
few as (
  select
    a.unit_id, a.day,
    sum(case when b.score > a.score then 2 when b.score = a.score then 1 else 0 end) as halves
  from scored_day a
  join scored_day b on a.unit_id = b.unit_id and a.day = b.day
  join judged j on b.unit_id = j.unit_id and b.day = j.day
  where a.click = 0 and b.click = 1 and not j.is_heavy
  group by a.unit_id, a.day
),
levels as (
  select s.unit_id, s.day, s.score, count(*) as n, sum(s.click) as p
  from scored_day s
  join judged j on s.unit_id = j.unit_id and s.day = j.day
  where j.is_heavy
  group by s.unit_id, s.day, s.score
),
ranked as (
  select
    unit_id, day, n, p,
    sum(n - p) over (
      partition by unit_id, day order by score rows unbounded preceding
    ) as at_or_below
  from levels
),
many as (
  select unit_id, day, sum(p * (2 * at_or_below - (n - p))) as halves
  from ranked
  group by unit_id, day
),
won as (
  select unit_id, day, halves from few
  union all
  select unit_id, day, halves from many
)
select
  j.unit_id, true as in_period, j.day,
  cast(j.n as bigint) as c_impressions,
  cast(round(1e9 * j.n * (
    cast(w.halves as double) / nullif(2.0e0 * j.p * (j.n - j.p), 0)
  )) as bigint) as c_weighted_auc
from judged j
join won w on j.unit_id = w.unit_id and j.day = w.day
