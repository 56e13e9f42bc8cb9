-- grain: one row per cell of a segment, variant and group of units: positions between the first and the
-- last of its lists, and those of them that lists lack
-- reads: audited_lists, audited_cells (unit_id, variant, cluster, cell)
select
  u.cell, u.variant, u.cluster,
  cast(sum(l.last_place - l.first_place + 1) as bigint) as places,
  cast(sum(l.holes) as bigint) as holes
from audited_lists l
join audited_cells u on l.unit_id = u.unit_id
group by u.cell, u.variant, u.cluster
