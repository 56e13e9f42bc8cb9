-- grain: one row per unit with rows that repeat another of theirs
-- reads: repeated_copies (unit_hash, click, copies: of a row that is kept, how many more there are)
select
  unit_hash, cast(sum(copies) as bigint) as duplicates,
  cast(sum(case when click = 1 then copies else 0 end) as bigint) as clicked
from repeated_copies
group by unit_hash
