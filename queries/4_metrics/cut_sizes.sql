-- grain: one row per value of a cut and variant: analysed units with an impression of it in the period
-- reads: cut_sums, units (unit_id, variant)
select s.value, u.variant, count(*) as units
from cut_sums s
join units u on s.unit_id = u.unit_id
group by s.value, u.variant
order by s.value, u.variant
