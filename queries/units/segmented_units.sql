-- grain: one row per analysed unit, with its segments at its first impression in the period
-- reads: candidates, first_segments
select c.unit_id, c.first_ms, c.variant, c.crossover, c.sub_bucket, columns('^s_')
from candidates c
left join first_segments f on c.unit_id = f.unit_id
where c.set_aside is null
