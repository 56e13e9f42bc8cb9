-- grain: one row per reason and phase: units that are not analysed, and their impressions
-- reads: unit_day, candidates (every unit seen, with the reason where it is not analysed)
select
  coalesce(c.set_aside, 'not_in_experiment') as reason, d.in_period,
  count(distinct d.unit_id) as units, cast(sum(d.c_1) as bigint) as impressions
from unit_day d
left join candidates c on d.unit_id = c.unit_id
where c.unit_id is null or c.set_aside is not null
group by coalesce(c.set_aside, 'not_in_experiment'), d.in_period
order by reason, d.in_period
