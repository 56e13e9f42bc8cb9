-- grain: one row: units that might be analysed, and those of them seen in more than one variant
-- reads: candidates
select count(*) as units, count_if(crossover) as crossovers
from candidates
