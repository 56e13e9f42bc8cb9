-- grain: one row per analysed unit: its first variant in the period, its segments then, whether it is new
-- reads: logged_cells, unit_names, variants (variant), experiment (excludes)
-- abeval places units over arrays; `abeval tools sql` writes this for the user's warehouse, and a test holds the
-- two together. A unit whose first impressions are of several variants is left out
with counted as (
  select n.unit_id, n.logged_id, c.in_period, c.variant, c.first_ms, columns('^s_')
  from logged_cells c
  join unit_names n on c.unit_id = n.logged_id
  where c.set_aside is null
),
seen as (
  select
    unit_id as seen_unit_id, min(first_ms) as seen_ms,
    min(variant) as variant_low, max(variant) as variant_high
  from counted
  where in_period
  group by unit_id
),
firsts as (
  select
    unit_id, logged_id, seen_ms as first_ms, variant_low <> variant_high as crossover,
    case
      when min(variant) = max(variant) and count(variant) = count(*) then min(variant)
    end as first_variant,
    min(columns('^s_'))
  from counted
  join seen on unit_id = seen_unit_id
  where in_period and (seen_ms is null or first_ms is null or first_ms = seen_ms)
  group by unit_id, logged_id, seen_ms, variant_low, variant_high
),
earlier as (
  select distinct unit_id as earlier_unit_id
  from counted
  where not in_period
)
select
  unit_id, first_ms, first_variant as variant, crossover, 0 as stretch,
  case when earlier_unit_id is null then 1 else 0 end as is_new,
  coalesce(columns('^s_'), '')
from firsts
join variants on first_variant = variants.variant
left join earlier on unit_id = earlier_unit_id
cross join experiment
where not (crossover and excludes)
