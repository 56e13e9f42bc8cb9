-- grain: one row per audited unit with rows that repeat another of theirs
-- reads: audited_names, repeated_copies (logged_id, copies: 1 for a row that has a copy, -1 for each kept)
select u.unit_id, cast(sum(r.copies) as bigint) as duplicates
from repeated_copies r
join audited_names u on r.logged_id = u.logged_id
group by u.unit_id
