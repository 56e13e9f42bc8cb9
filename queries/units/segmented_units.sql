-- grain: one row per analysed unit, with its segments at its first impression in the period,
-- empty where it has none
-- reads: stretched (the candidates, each with the stretch of its entry), unit_day, first_segments
with before as (
  select distinct unit_id from unit_day where not in_period
)
select
  c.unit_id, c.first_ms, c.variant, c.crossover, c.sub_bucket, c.stretch,
  case when b.unit_id is null then 1 else 0 end as is_new,
  coalesce(columns('^s_'), '')
from stretched c
left join before b on c.unit_id = b.unit_id
left join first_segments f on c.unit_id = f.unit_id
where c.set_aside is null
