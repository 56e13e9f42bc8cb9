-- grain: one row: units that might be analysed, those of them seen in more than one variant, those of
-- these whose first one the log does not tell, and those of these that are not analysed
-- reads: candidates
select
  count(*) as units, count_if(crossover) as crossovers, count_if(tied) as tied,
  count_if(coalesce(set_aside = 'tied_crossover', false)) as tied_out
from candidates
