-- grain: one row per unit and value of a cut: its sums over those impressions of the period
-- reads: cut_rows (unit_id, value, c_ columns)
select unit_id, value, cast(sum(columns('^c_[0-9]')) as bigint)
from cut_rows
group by unit_id, value
