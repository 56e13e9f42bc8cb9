-- grain: one row per analysed unit of a window: active in it, or entered by its end
-- reads: units, entry, unit_day, cut (first_day, last_day, by_entry: 1 or 0)
with active as (
  select distinct d.unit_id as active_unit_id
  from unit_day d
  cross join cut c
  where d.in_period and d.day between c.first_day and c.last_day
),
entered as (
  select unit_id as entered_unit_id
  from entry
  cross join cut
  where by_entry = 1 and entry_day <= last_day
),
chosen as (
  select entered_unit_id as chosen_unit_id from entered
  union
  select active_unit_id as chosen_unit_id from active
)
select columns('^(unit_id|first_ms|variant|crossover|sub_bucket|stretch|is_new|[su]_.*)$')
from units
join chosen on unit_id = chosen_unit_id
