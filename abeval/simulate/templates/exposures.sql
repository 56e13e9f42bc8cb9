-- grain: one row per user and variant
-- reads: chunk, of requests in the test
select
    'u' || lpad(cast(user_code as varchar), 7, '0') as user_id,
    ($variants)[variant_code + 1] as variant,
    min(time) as time
from chunk
group by user_code, variant_code
order by min(time), user_code, variant_code
