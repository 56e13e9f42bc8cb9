-- grain: one row per impression
-- reads: chunk, of one file
-- What the candidate learned from: all rows that the baseline served before the test.
select
    'u' || lpad(cast(user_code as varchar), 7, '0') as user_id,
    item_id, time, clicked as click, 'baseline' as policy, score_candidate
from chunk
where user_code >= 0 and variant_code < 0 and not isnan(score_candidate)
