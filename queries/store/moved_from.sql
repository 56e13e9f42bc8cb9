-- grain: one row per moved unit and closed day that was counted for a variant: to be taken out of it
-- reads: moved_day
select placed as variant, columns('^(day|c_.*)$')
from moved_day
where placed is not null
