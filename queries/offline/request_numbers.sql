-- grain: one row per unit and request: the number of the request, ascending with its id
-- reads: kept_rows (unit_id, request_id)
-- requests of two units that share an id have two numbers
select unit_id, request_id, row_number() over (order by request_id, unit_id) as number
from (select distinct unit_id, request_id from kept_rows where request_id is not null) as r
