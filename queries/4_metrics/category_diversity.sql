-- grain: one row per unit, phase and day: sums over its served lists
-- reads: metric_rows
-- a list's diversity is 1 - sum n_c (n_c - 1) / (n (n - 1)), n_c of its n items in category c;
-- impressions without a category, and lists of fewer than two others, are left out and counted
with categories as (
  select
    unit_id, in_period, request_id, category,
    min(day) as day,
    count(*) as impressions, count(category) as n
  from metric_rows
  where request_id is not null
  group by unit_id, in_period, request_id, category
),
lists as (
  select
    unit_id, in_period, request_id,
    min(day) as day,
    sum(impressions) as impressions, sum(n) as n, sum(n * (n - 1)) as alike
  from categories
  group by unit_id, in_period, request_id
)
select
  unit_id, in_period, day,
  cast(sum(case when n >= 2 then 1 else 0 end) as bigint) as c_lists,
  cast(sum(
    case when n >= 2
      then cast(round(1e9 * (1 - cast(alike as double) / nullif(cast(n as double) * (n - 1), 0))) as bigint)
      else 0
    end
  ) as bigint) as c_diversity,
  cast(sum(case when n >= 2 then 0 else 1 end) as bigint) as c_left_out_lists,
  cast(sum(case when n >= 2 then impressions - n else impressions end) as bigint) as c_left_out_impressions
from lists
group by unit_id, in_period, day
