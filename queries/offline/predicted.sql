-- grain: one row per unit: pairs of a request and an item that are judged, and those that the model scores
-- reads: judged_pairs (unit_id, score)
-- prediction coverage (Herlocker et al. 2004); all requests count, also those that another model lacks
select unit_id, count(*) as pairs, count(score) as predicted
from judged_pairs
group by unit_id
