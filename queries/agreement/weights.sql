-- grain: one row: how unevenly control's rows would be weighted to stand for the variant's items
-- reads: agreement_rows (variant, item_id), agreement_sides (variant, side)
with items as (
  select
    r.item_id,
    sum(case when s.side = 'control' then 1 else 0 end) as control,
    sum(case when s.side = 'variant' then 1 else 0 end) as shown
  from agreement_rows r
  join agreement_sides s on r.variant = s.variant
  where r.item_id is not null
  group by r.item_id
)
select
  cast(sum(control) as bigint) as control_rows,
  sum(case when control > 0 then cast(shown as double) end) as weight,
  sum(cast(shown as double) * shown / nullif(control, 0)) as squared_weight
from items
