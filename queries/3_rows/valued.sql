-- grain: one row per impression of the period with a value that a quantile ranks, a whole number
-- reads: analysed_rows (day is null where days are not asked for)
select unit_id, variant, day, value
from analysed_rows
where in_period and value is not null
