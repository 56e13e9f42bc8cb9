-- grain: one row per variant and group of units: rows that repeat another of theirs
-- reads: audited_names, repeated_copies (logged_id, copies: 1 for a row that has a copy, -1 for each kept)
select u.variant, u.cluster, cast(sum(r.copies) as bigint) as duplicates
from repeated_copies r
join audited_names u on r.logged_id = u.logged_id
group by u.variant, u.cluster
