-- grain: one row per unit and cut-off: sums of the wanted values of its requests, multiples of 1e-9
-- reads: wanted_values (unit_id, k, and a column v_… for each wanted metric)
select unit_id, k, cast(sum(cast(round(1e9 * columns('^v_')) as bigint)) as bigint) as "\0"
from wanted_values
group by unit_id, k
