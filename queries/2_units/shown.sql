-- grain: one row per unit with an impression of the period that counts: when first, and in which variants; first_variant
-- is null where the log does not say which was first
-- reads: logged_cells
-- abeval places units over arrays; `abeval tools sql` writes this
with counted as (
  select unit_id, variant, first_ms, min(first_ms) over (partition by unit_id) as seen_ms
  from logged_cells
  where set_aside is null and in_period
),
marked as (
  select
    unit_id, variant, seen_ms,
    case when seen_ms is null or first_ms is null or first_ms = seen_ms then 1 end as is_first
  from counted
)
select
  unit_id, seen_ms as first_ms, min(variant) as variant_low, max(variant) as variant_high,
  case
    when min(case when is_first = 1 then variant end) = max(case when is_first = 1 then variant end)
      and count(case when is_first = 1 then variant end) = count(is_first)
      then min(case when is_first = 1 then variant end)
  end as first_variant
from marked
group by unit_id, seen_ms
