-- grain: one row per impression
-- reads: chunk, of one file
-- A code of -1 is index 0, before the first name of a list, and becomes null.
select
    impression_id,
    request_id,
    case when user_code >= 0 then 'u' || lpad(cast(user_code as varchar), 7, '0') end
        as user_id,
    item_id,
    time,
    ($variants)[variant_code + 1] as variant,
    cast(position as integer) as position,
    ($devices)[device_code + 1] as device,
    ($countries)[country_code + 1] as country,
    case when not isnan(score_baseline) then score_baseline end as score_baseline,
    case when not isnan(score_candidate) then score_candidate end as score_candidate,
    case when not isnan(served_score) then served_score end as ranked_by,
    model_trained
from chunk
