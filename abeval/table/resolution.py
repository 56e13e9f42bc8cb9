"""To which step the values of a table can be rounded, and which of them are shares."""

import math
from collections.abc import Sequence

from abeval.engines.protocol import Engine, whole
from abeval.table.columns import TABLE, Columns

_DIGITS = 14
"""Digits of the largest value that are kept, as doubles have some 16."""

_DECIMALS = 6
"""Decimals that are looked for; a value of more is rounded to `_DIGITS`."""

_LOOKED_AT = 10_000
"""Rows that say how many decimals to look for."""


def is_share(engine: Engine, columns: Columns, text: str) -> bool:
    """Whether values are 0 and 1; nothing but zeros may be counts of what is rare."""
    value = _double(text)
    ((odd, most, least),) = engine.rows(
        f"select count_if({value} not in (0, 1)), max({value}), min({value}) from {TABLE}"
    )
    return not odd and (most != least or columns.type_of(text) == "BOOLEAN")


def step_of(engine: Engine, columns: Columns, texts: Sequence[str]) -> float:
    """A step to which values can be rounded without a loss that would be seen."""
    if all(columns.is_whole(text) for text in texts):
        return 1.0
    sizes = [f"max(case when abs({_double(t)}) < 1e300 then abs({_double(t)}) end)" for t in texts]
    (row,) = engine.rows(f"select {', '.join(sizes)} from {TABLE}")
    largest = [float(size) for size in row if size]
    if not largest:
        return 1e-6
    # The smaller of two needs its digits too, as far as the larger one leaves room.
    exponent = max(_exponent(min(largest)), _exponent(max(largest)) - 1) - _DIGITS
    decimals = _decimals(engine, texts)
    least = -12 if decimals is None else -decimals
    return float(f"1e{min(max(exponent, least), 0)}")


def _decimals(engine: Engine, texts: Sequence[str]) -> int | None:
    """The decimals that are enough for every value; None for more than six.

    Sums of few digits cost less.
    """
    some = f"(select * from {TABLE} limit {_LOOKED_AT})"
    of_some = _odd(engine, texts, range(_DECIMALS + 1), some)
    enough = of_some.index(0) if 0 in of_some else None
    return None if enough is None or _odd(engine, texts, [enough], TABLE)[0] else enough


def _odd(engine: Engine, texts: Sequence[str], decimals: Sequence[int], relation: str) -> list[int]:
    """For each number of decimals: the rows with a value that has more."""
    same = (
        " or ".join(f"round({_double(text)}, {place}) <> {_double(text)}" for text in texts)
        for place in decimals
    )
    counts = ", ".join(f"count_if({odd})" for odd in same)
    (row,) = engine.rows(f"select {counts} from {relation}")
    return [whole(count) for count in row]


def _double(text: str) -> str:
    return f"cast(({text}) as double)"


def _exponent(size: float) -> int:
    return math.ceil(math.log10(size))
