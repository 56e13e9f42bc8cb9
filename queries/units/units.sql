-- grain: one row per analysed unit
-- reads: candidates
select unit_id, first_ms, variant, crossover, sub_bucket
from candidates
where set_aside is null
