-- grain: one row per unit: pairs of a request and an item that are judged, and those that the model scores
-- reads: every_item (unit_id, request_id, item_id, score, tie, judged: 1 or 0)
-- prediction coverage (Herlocker et al. 2004); all requests count, also those that another model lacks
select unit_id, count(*) as pairs, count(score) as predicted
from every_item
where judged = 1
group by unit_id
