-- grain: one row per impression, as a part of its cluster's slot
-- reads: dated (impressions with cluster, slot, since_ms), slots, experiment (burn_in_ms, slot_ms)
-- the burn-in of every slot: which slots switch is drawn, too, and what is left must not depend on it
with placed as (
  select
    columns(*),
    case
      when cluster is null then 'no_cluster'
      when is_mixed then 'mixed_slot'
      when since_ms < burn_in_ms then 'burn_in'
      when 2 * since_ms < burn_in_ms + slot_ms then 'early'
      else 'late'
    end as part
  from dated
  cross join experiment
  left join slots on cluster = of_cluster and slot = of_slot
)
select
  columns(*),
  coalesce(cluster, '') || '|' || coalesce(cast(slot as varchar), '') || '|' || part as unit_id,
  coalesce(reason, case when part in ('no_cluster', 'mixed_slot', 'burn_in') then part end)
    as set_aside
from placed
