-- grain: one row per unit and request: the number of the request, ascending with its id
-- reads: keyed_requests (unit_id, request_id; both ids once)
-- requests of two units that share an id have two numbers
select unit_id, request_id, row_number() over (order by request_id, unit_id) as number
from keyed_requests
