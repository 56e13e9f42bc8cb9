-- grain: one row per request and item that a ground truth judges, of the requests of the log
-- reads: truth_keys (unit_id, request_id, whose: the request or the unit), truth_log (whose, item_id,
-- grade)
-- an item judged twice keeps its highest grade
select a.unit_id, a.request_id, t.item_id, max(t.grade) as grade
from truth_keys a
join truth_log t on a.whose = t.whose
group by a.unit_id, a.request_id, t.item_id
