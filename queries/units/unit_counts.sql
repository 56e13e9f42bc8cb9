-- grain: one row per variant: analysed units, and those of them that the log shows in two variants
-- reads: units
select variant, count(*) as units, count_if(crossover) as crossovers
from units
group by variant
