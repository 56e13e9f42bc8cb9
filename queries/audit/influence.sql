-- grain: one row per part, variant and each of its twenty units that weigh most, without their ids
-- reads: unit_value (part, variant, y, x: whole numbers, one row per unit and part)
-- a unit moves a ratio by its numerator above what its denominator makes expect; dev is that
with totals as (
  select
    part, variant,
    cast(sum(cast(y as decimal(38, 0))) as double) as all_y,
    cast(sum(cast(x as decimal(38, 0))) as double) as all_x
  from unit_value
  group by part, variant
),
weighed as (
  select m.part, m.variant, m.y, m.x, abs(m.y - t.all_y / nullif(t.all_x, 0) * m.x) as dev
  from unit_value m
  join totals t on m.part = t.part and m.variant = t.variant
  where t.all_x > 0
),
ranked as (
  select
    part, variant, y, x, dev,
    row_number() over (partition by part, variant order by dev desc, y desc, x) as place
  from weighed
)
select part, variant, cast(place as bigint) as place, cast(y as varchar) as y, cast(x as varchar) as x
from ranked
where place <= 20
order by part, variant, place
