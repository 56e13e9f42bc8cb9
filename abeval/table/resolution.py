"""To which step the values of a table can be rounded, and which of them are shares."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Cell, Engine
from abeval.table.columns import TABLE, Columns

_DIGITS = 14
"""Digits of the largest value that are kept, as doubles have some 16."""

_PLACES = range(7)
"""Decimals that are looked for; a value of more is rounded to `_DIGITS`."""

_LOOKED_AT = 10_000
"""Rows that say how many decimals to look for."""


class _Range(NamedTuple):
    """What values lie between.

    Attributes:
        odd: How many are neither 0 nor 1.
        most: The largest.
        least: The smallest.
        size: The largest finite one without its sign; None where there is none.
    """

    odd: Cell
    most: Cell
    least: Cell
    size: Cell


class Values:
    """What the values of some groups of expressions are like, by few statements for all of them.

    Args:
        engine: Has the table.
        columns: Its columns.
        groups: The expressions of each metric or covariate, which share a step.
    """

    def __init__(self, engine: Engine, columns: Columns, groups: Sequence[Sequence[str]]) -> None:
        self._engine, self._columns = engine, columns
        texts = list(dict.fromkeys(text for group in groups for text in group))
        cells = self._row([_range_sql(text) for text in texts])
        self._ranges = {
            text: _Range(*cells[4 * i : 4 * i + 4])  # as `_range_sql` lists them
            for i, text in enumerate(texts)
        }
        broken = dict.fromkeys(map(self._broken, groups))
        self._decimals = self._enough([group for group in broken if group])

    def is_share(self, text: str) -> bool:
        """Whether values are 0 and 1; nothing but zeros may be counts of what is rare."""
        one = self._ranges[text]
        varies = one.most != one.least
        return not one.odd and (varies or self._columns.type_of(text) == "BOOLEAN")

    def step(self, texts: Sequence[str]) -> float:
        """A step to which values can be rounded without a loss that would be seen."""
        broken = self._broken(texts)
        if not broken:
            return 1.0
        largest = [float(size) for text in texts if (size := self._ranges[text].size)]
        if not largest:
            return 1e-6
        # The smaller of two needs its digits too, as far as the larger one leaves room.
        exponent = max(_exponent(min(largest)), _exponent(max(largest)) - 1) - _DIGITS
        decimals = self._decimals[broken]
        least = -12 if decimals is None else -decimals
        return float(f"1e{min(max(exponent, least), 0)}")

    def _broken(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Those whose values may have decimals."""
        return tuple(text for text in texts if not self._columns.is_whole(text))

    def _enough(self, groups: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int | None]:
        """The decimals that are enough for every value of a group; None for more than six.

        Sums of few digits cost less.
        """
        if not groups:
            return {}
        texts = list(dict.fromkeys(text for group in groups for text in group))
        named = ", ".join(f"{_double(text)} as v_{i}" for i, text in enumerate(texts))
        columns = self._engine.arrays(f"select {named} from {TABLE} limit {_LOOKED_AT}")
        odd = {text: _odd(columns[f"v_{i}"]) for i, text in enumerate(texts)}
        enough = {
            group: next((p for p in _PLACES if not any(odd[text][p] for text in group)), None)
            for group in groups
        }
        if columns["v_0"].size < _LOOKED_AT:
            return enough
        likely = {group: place for group, place in enough.items() if place is not None}
        more = self._row([_odd_sql(group, place) for group, place in likely.items()])
        return enough | {group: None for group, rows in zip(likely, more, strict=True) if rows}

    def _row(self, sums: Sequence[str]) -> Sequence[Cell]:
        if not sums:
            return ()
        (row,) = self._engine.rows(f"select {', '.join(sums)} from {TABLE}")
        return row


def _range_sql(text: str) -> str:
    value = _double(text)
    return (
        f"count_if({value} not in (0, 1)), max({value}), min({value}), "
        f"max(case when abs({value}) < 1e300 then abs({value}) end)"
    )


def _odd(values: NDArray[np.generic]) -> list[bool]:
    """Whether some of the values have more decimals, for each number of decimals."""
    known = np.ma.compressed(values)
    with np.errstate(over="ignore"):
        rounded = [np.round(known, place) for place in _PLACES]
    return [bool(((some != known) & np.isfinite(some)).any()) for some in rounded]


def _odd_sql(texts: Sequence[str], place: int) -> str:
    """The rows with a value that has more decimals."""
    rounded = (f"round({_double(text)}, {place}) <> {_double(text)}" for text in texts)
    return f"count_if({' or '.join(rounded)})"


def _double(text: str) -> str:
    return f"cast(({text}) as double)"


def _exponent(size: float) -> int:
    return math.ceil(math.log10(size))
