-- grain: one row per impression, as a part of its cluster's slot
-- reads: dated (impressions with cluster, slot, since_ms), slots, experiment (burn_in_ms, slot_ms)
-- a slot without rows after the burn-in, and one that follows no slot, count as switched
with known as (
  select
    d.*, burn_in_ms, slot_ms, coalesce(s.goes_on, false) as goes_on,
    coalesce(s.is_mixed, false) as is_mixed
  from dated d
  cross join experiment
  left join slots s on d.cluster = s.cluster and d.slot = s.slot
),
placed as (
  select
    *,
    case
      when cluster is null then 'no_cluster'
      when is_mixed then 'mixed_slot'
      when since_ms >= burn_in_ms and 2 * since_ms < burn_in_ms + slot_ms then 'early'
      when since_ms >= burn_in_ms then 'late'
      when goes_on then 'first'
      else 'burn_in'
    end as part
  from known
)
select
  *,
  concat(coalesce(cluster, ''), '|', coalesce(cast(slot as varchar), ''), '|', part) as unit_id,
  coalesce(reason, case when part in ('no_cluster', 'mixed_slot', 'burn_in') then part end)
    as set_aside
from placed
