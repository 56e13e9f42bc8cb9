-- grain: one row per unit, day and value: impressions of the period with it; over all days, day is null
-- reads: valued (unit_id, day, value: a whole number, never null)
-- a quantile of a variant, and how far its units differ from it, follow from these alone
select unit_id, day, value, count(*) as events
from valued
group by unit_id, day, value
