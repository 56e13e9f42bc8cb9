-- grain: one row per analysed unit of a window
-- reads: units, chosen_unit (chosen_unit_id)
select columns('^(unit_id|first_ms|variant|crossover|sub_bucket|stretch|is_new|[su]_.*)$')
from units
join chosen_unit on unit_id = chosen_unit_id
