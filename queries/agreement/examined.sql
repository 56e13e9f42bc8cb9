-- grain: one row per position and cell of both scores: impressions and clicks of both variants
-- reads: agreement_ranked (position, b, c, click, learned)
-- A score that has learned a row's click knows it at any position.
select
  position, cast(floor(b / 2) as bigint) as b, cast(floor(c / 2) as bigint) as c,
  count(*) as impressions, cast(sum(click) as bigint) as clicks
from agreement_ranked
where position is not null and learned = 0
group by position, floor(b / 2), floor(c / 2)
