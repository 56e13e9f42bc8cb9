-- grain: one row per analysed unit; is_new is 1 where it was not seen before the period
-- reads: stretched (the candidates, each with the stretch of its entry), unit_day
with before as (
  select distinct unit_id from unit_day where not in_period
)
select
  c.unit_id, c.first_ms, c.variant, c.crossover, c.sub_bucket, c.stretch,
  case when b.unit_id is null then 1 else 0 end as is_new
from stretched c
left join before b on c.unit_id = b.unit_id
where c.set_aside is null
