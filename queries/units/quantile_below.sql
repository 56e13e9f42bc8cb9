-- grain: one row per unit with a value: how many of its impressions are below its variant's quantile,
-- in parts of one impression, and how many there are
-- reads: quantile_event (variant, unit_id, value), quantile_step (variant, lower, upper: the values on
-- either side of the quantile, whole, at_lower, at_upper: parts that an impression counts below lower,
-- at lower, at upper)
-- the standard error of a quantile over impressions follows from the share below, clustered by unit
-- (Deng, Knoblich and Lu 2018)
select
  e.unit_id, true as in_period,
  cast(
    sum(
      case
        when e.value < q.lower then q.whole
        when e.value = q.lower then q.at_lower
        when e.value = q.upper then q.at_upper
        else 0
      end
    ) as bigint
  ) as c_below,
  count(*) as c_events
from quantile_event e
join quantile_step q on e.variant = q.variant
group by e.unit_id
