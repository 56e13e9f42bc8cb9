-- grain: one row per wanted quantile and analysed unit: how many of the unit's values are below that
-- quantile of its variant, in parts of one value, and how many it has; 0 and 0 without a value
-- reads: units (unit_id, variant, stretch), quantile_event (variant, unit_id, value), quantile_step
-- (step_variant, number: of the quantile, lower, upper: the values on either side of it, whole, at_lower,
-- at_upper: parts that a value counts below lower, at lower, at upper)
-- the standard error of a quantile over impressions follows from the share below, clustered by unit
-- (Deng, Knoblich and Lu 2018)
with counted as (
  select
    e.unit_id as counted_unit_id, q.number as counted_number,
    cast(
      sum(
        case
          when e.value < q.lower then q.whole
          when e.value = q.lower then q.at_lower
          when e.value = q.upper then q.at_upper
          else 0
        end
      ) as bigint
    ) as below,
    count(*) as events
  from quantile_event e
  join quantile_step q on e.variant = q.step_variant
  group by e.unit_id, q.number
)
select
  columns('^(unit_id|variant|stretch)$'), cast(number as varchar) as number,
  coalesce(below, 0) as t_below, coalesce(events, 0) as t_events
from units
join quantile_step on variant = step_variant
left join counted on unit_id = counted_unit_id and number = counted_number
