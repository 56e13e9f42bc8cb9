-- grain: one row per unit with a value: how many of its impressions are at or below its variant's
-- quantile, and how many there are
-- reads: quantile_event (variant, unit_id, value), quantile_threshold (variant, threshold)
-- the standard error of a quantile over impressions follows from the share below, clustered by unit
-- (Deng, Knoblich and Lu 2018)
select
  e.unit_id, true as in_period,
  cast(sum(case when e.value <= q.threshold then 1 else 0 end) as bigint) as c_below,
  count(*) as c_events
from quantile_event e
join quantile_threshold q on e.variant = q.variant
group by e.unit_id
