-- grain: one row per moved unit and closed day that counts for a variant as things are: to be added
-- reads: moved_day
select columns('^(variant|day|c_.*)$')
from moved_day
where variant is not null
