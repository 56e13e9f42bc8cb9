-- grain: one row per analysed unit, with what the table of units says of it: segments (empty without a
-- row) and covariates (0 without a row)
-- reads: listed_units (the analysed units), described_rows
with known as (
  select known_unit_id, columns('^[su]_')
  from described_rows
  where set_aside is null
)
select
  columns('^(unit_id|first_ms|variant|crossover|sub_bucket|stretch|is_new)$'),
  coalesce(columns('^s_'), ''),
  coalesce(columns('^u_'), 0)
from listed_units
left join known on unit_id = known_unit_id
