-- grain: one row per unit with rows that repeat another of theirs
-- reads: repeated_copies (unit_hash, copies: 1 for a row that has a copy, -1 for each kept)
select unit_hash, cast(sum(copies) as bigint) as duplicates
from repeated_copies
group by unit_hash
