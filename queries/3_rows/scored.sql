-- grain: one row per impression of the period with a score of the model that was served
-- reads: analysed_rows (day is null where days are not asked for; in a cut, unit_id and variant are a unit
-- and a variant in one cell)
select unit_id, variant, day, score, click
from analysed_rows
where in_period and score is not null
