-- grain: one row per key that more than one impression has
-- reads: keyed_impressions (only the columns of the key)
select columns(*)
from keyed_impressions
group by all
having count(*) > 1
