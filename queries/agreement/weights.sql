-- grain: one row: how unevenly control's rows would be weighted to stand for the variant's items
-- reads: agreement_served (side, item_id)
with items as (
  select
    item_id,
    sum(case when side = 'control' then 1 else 0 end) as control,
    sum(case when side = 'variant' then 1 else 0 end) as shown
  from agreement_served
  where item_id is not null
  group by item_id
)
select
  cast(sum(control) as bigint) as control_rows,
  sum(case when control > 0 then cast(shown as double) end) as weight,
  sum(cast(shown as double) * shown / nullif(control, 0)) as squared_weight
from items
