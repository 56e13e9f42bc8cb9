-- grain: one row per local day of the period with an impression
-- reads: unit_day
select
  cast(day as varchar) as day, count(*) as units, cast(sum(c_1) as bigint) as impressions,
  min(first_ms) as first_ms, max(last_ms) as last_ms
from unit_day
where in_period and day is not null
group by day
order by day
