-- grain: one row per request and named cut-off: its least and largest value in the rows of the request
-- reads: cutoff_rows (request_id, named_request: the id as logged, cutoff: the number of the name, k)
select
  request_id, cutoff, min(named_request) as named_request, min(k) as k, max(k) as largest,
  count(*) - count(k) as rows_without
from cutoff_rows
group by request_id, cutoff
