-- grain: one row per impression
-- reads: chunk, all impressions of the log
select 'city ' || city as city, 'u' || lpad(user_id::varchar, 4, '0') as user_id, ts, variant,
    click
from chunk order by ts, city, user_id
