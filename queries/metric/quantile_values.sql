-- grain: one row per variant and wanted place: the value that stands there when all are sorted
-- reads: wanted_place (variant, place from 0), quantile_level (variant, value, events, events_to_here)
select w.variant, w.place, l.value
from quantile_level l
join wanted_place w
  on l.variant = w.variant and l.events_to_here > w.place and l.events_to_here - l.events <= w.place
order by w.variant, w.place
