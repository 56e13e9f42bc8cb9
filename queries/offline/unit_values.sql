-- grain: one row per unit and cut-off: sums of the wanted values of its requests, multiples of
-- 1e-12, added as integers
-- reads: wanted_values (unit_id, k, and a column v_… for each wanted metric)
select unit_id, k, cast(sum(cast(round(1e12 * columns('^v_')) as bigint)) as double) as "\0"
from wanted_values
group by unit_id, k
