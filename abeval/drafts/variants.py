"""Which column of a table is the variant of its units, and what its values are.

`drafts/run.py` asks it of the main table, `drafts/others.py` of exposures.
"""

from collections.abc import Sequence

from abeval.drafts import guess
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Arms, Guess
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, quoted
from abeval.experiment.problems import spelled_alike


def variant_of(engine: Engine, table: Table, one_row: bool) -> Guess:
    """The column of the variant; `one_row` where no unit has a second row."""
    unit = guess.unit_guess(table).column
    candidates = [c for c in guess.variant_candidates(table) if c != unit]
    return guess.variant_guess(candidates, _constant(engine, table, unit, candidates), one_row)


def arms_of(engine: Engine, table: Table, guessed: Guess) -> Arms | None:
    """The values of a column of the variant; None where there is no such column."""
    unit, variant = guess.unit_guess(table).column, guessed.column
    if variant is None:
        return None
    counted = "count(*)" if unit is None else f"count(distinct {quoted(unit.name)})"
    joined = {names[0]: names for names in spelled_alike(value for value, _ in variant.values)}
    text = f"cast({quoted(variant.name)} as varchar)"
    cases = " ".join(
        f"when {literal(name)} then {literal(names[0])}"
        for names in joined.values()
        for name in names
    )
    rows = engine.rows(
        f"select {f'case {text} {cases} else {text} end' if cases else text} as v, {counted} as n "
        f"from {quoted(table.relation)} where {quoted(variant.name)} is not null "
        "group by v order by n desc, v"
    )
    return guess.arms({str(value): whole(count) for value, count in rows}, joined)


def _constant(
    engine: Engine, table: Table, unit: Column | None, candidates: Sequence[Column]
) -> dict[str, float]:
    """Column → share of units that have one value of it."""
    if unit is None or not candidates:
        return {c.name: 1.0 for c in candidates}
    counts = ", ".join(
        f"count(distinct {_spelled_once(c)}) as n_{i}" for i, c in enumerate(candidates)
    )
    shares = ", ".join(
        f"avg(case when n_{i} <= 1 then 1.0 else 0.0 end)" for i in range(len(candidates))
    )
    ((*values,),) = engine.rows(
        f"select {shares} from (select {counts} from {quoted(table.relation)} "
        f"where {quoted(unit.name)} is not null group by {quoted(unit.name)})"
    )
    return {c.name: float(value or 0) for c, value in zip(candidates, values, strict=True)}


def _spelled_once(column: Column) -> str:
    """SQL of a column, of text without capitals and the spaces around it."""
    name = quoted(column.name)
    return f"lower(trim(cast({name} as varchar)))" if column.kind == "text" else name
