-- grain: one row per impression of control and the variant, and the state in which it was served
-- reads: agreement_rows (variant, unit_id, cluster, day, time_ms, request_id, position, click, baseline,
--   candidate, served_score, timeout, fallback, stale, empty, latency, model_version, model_time,
--   feature_time, item_id, category, treated), agreement_sides (variant, side), training_keys (
--   unit_id, item_id, time_ms)
-- own is the score of the model that served; apart is served_score less own, in log odds where both
-- are probabilities. A model is old if it is a day older than control's are on average.
with sided as (
  select
    s.side, r.variant, r.unit_id, r.cluster, r.day, r.time_ms, r.position, r.click, r.served_score,
    r.timeout, r.fallback, r.stale, r.empty, r.latency, r.model_version, r.feature_time,
    r.treated, r.baseline, r.candidate, r.request_id, r.item_id, r.category,
    r.time_ms - r.model_time as age_ms,
    case when t.unit_id is null then 0 else 1 end as learned,
    case when s.side = 'control' then r.baseline else r.candidate end as own
  from agreement_rows r
  join agreement_sides s on r.variant = s.variant
  left join training_keys t
    on r.unit_id = t.unit_id and cast(r.item_id as varchar) = t.item_id and r.time_ms = t.time_ms
),
usual as (
  select cast(sum(age_ms) as double) / nullif(count(age_ms), 0) as age_ms
  from sided
  where side = 'control'
)
select
  d.side, d.variant, d.unit_id, d.cluster, d.day, d.position, d.click, d.own, d.served_score,
  d.timeout, d.fallback, d.stale, d.empty, d.latency, d.model_version, d.feature_time,
  d.time_ms, d.learned, d.treated, d.age_ms, d.baseline, d.candidate, d.request_id, d.item_id,
  d.category,
  case
    when coalesce(d.timeout > 0, false) or coalesce(d.fallback > 0, false)
      or coalesce(d.empty > 0, false) then 'failed'
    when coalesce(d.feature_time > d.time_ms, false) then 'late'
    when coalesce(d.stale > 0, false) or coalesce(d.age_ms > u.age_ms + 86400000, false) then 'old'
    else 'plain'
  end as state,
  case
    when d.own > 0 and d.own < 1 and d.served_score > 0 and d.served_score < 1
      then ln(d.served_score / nullif(1 - d.served_score, 0)) - ln(d.own / nullif(1 - d.own, 0))
    else d.served_score - d.own
  end as apart
from sided d
cross join usual u
