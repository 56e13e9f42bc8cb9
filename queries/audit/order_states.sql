-- grain: one row: the rows of orders that have several states, and all rows with an order
-- reads: order_rows (id, state)
with orders as (
  select id, count(*) as events, count(distinct state) as states
  from order_rows
  where id is not null
  group by id
)
select
  cast(coalesce(sum(case when states > 1 then events end), 0) as bigint) as several,
  cast(coalesce(sum(events), 0) as bigint) as events
from orders
