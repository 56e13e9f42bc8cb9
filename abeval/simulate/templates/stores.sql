-- grain: one row per impression
-- reads: chunk, all impressions of the log
select 'store ' || store as store, 'pair ' || pair as pair,
    'u' || lpad(user_id::varchar, 4, '0') as user_id, ts, variant, click
from chunk order by ts, user_id
