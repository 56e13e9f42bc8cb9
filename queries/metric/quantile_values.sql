-- grain: one row per variant and wanted place that lies between the middles of two neighbouring values
-- reads: wanted_place (variant, place), quantile_level (variant, value, middle, next_value, next_middle)
select w.variant, w.place, l.value, l.middle, l.next_value, l.next_middle
from quantile_level l
join wanted_place w
  on l.variant = w.variant and l.middle <= w.place and l.next_middle > w.place
order by w.variant, w.place
