-- grain: one row per impression
-- reads: chunk, all impressions of the log
-- A rank of 0 is none.
select 'u' || lpad(user::varchar, 4, '0') as user_id, request_id, item_id, position, time,
    team, nullif(rank_old, 0) as rank_old, nullif(rank_new, 0) as rank_new, click
from chunk order by time, request_id, position
