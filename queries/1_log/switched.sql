-- grain: one row per impression, as a part of its cluster's slot: quarters of what follows the burn-in
-- reads: dated (the rows of 1_log/seen, with cluster, slot, since_ms), slots, experiment (burn_in_ms, slot_ms)
-- the burn-in of every slot: which slots switch is drawn, too, and what is left must not depend on it
with placed as (
  select
    columns('^([a-z]+|(time|since)_ms|own_.*|(impression|request|item)_id|score_.*|raw_.*|key_[123]|hour_ts|in_period)$'),
    set_aside as set_aside_before,
    case
      when cluster is null then 'no_cluster'
      when is_mixed then 'mixed_slot'
      when since_ms < burn_in_ms then 'burn_in'
      when 4 * (since_ms - burn_in_ms) < slot_ms - burn_in_ms then '0'
      when 4 * (since_ms - burn_in_ms) < 2 * (slot_ms - burn_in_ms) then '1'
      when 4 * (since_ms - burn_in_ms) < 3 * (slot_ms - burn_in_ms) then '2'
      else '3'
    end as part
  from dated
  cross join experiment
  left join slots on cluster = of_cluster and slot = of_slot
)
select
  columns('^([a-z]+|(time|since)_ms|own_.*|(impression|request|item)_id|score_.*|raw_.*|key_[123]|hour_ts|in_period)$'),
  coalesce(cluster, '') || '|' || coalesce(cast(slot as varchar), '') || '|' || part as unit_id,
  coalesce(set_aside_before, case when part in ('no_cluster', 'mixed_slot', 'burn_in') then part end)
    as set_aside
from placed
