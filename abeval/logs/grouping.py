"""Groups rows of arrays by several whole numbers, and sums each group exactly.

`cells.py` and `placing.py` group the cells of a log by it, the kernels of `aggregates/` its rows.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.logs.unit_arrays import UnitDays

Whole = NDArray[np.int64]
Places = NDArray[np.intp]
Floats = NDArray[np.float64]

_BITS = 63
"""Of a key; its sign is not used."""


def key_of(*columns: NDArray[Any]) -> Whole:
    """Pack columns of whole numbers into one, which orders rows as the columns do in turn.

    Args:
        columns: Each of shape (rows,).

    Example:
        >>> key_of(np.array([5, 4, 5]), np.array([-1, 9, 7])).argsort().tolist()
        [1, 0, 2]
    """
    key, bits = np.zeros(len(columns[0]), dtype=np.int64), 0
    for column in columns:
        code, width = _coded(column.astype(np.int64, copy=False))
        if bits + width > _BITS:
            key, bits = _coded(_ranks(key))
            code, width = _coded(_ranks(code))
        key, bits = (key << width) | code, bits + width
    return key


def _coded(column: Whole) -> tuple[Whole, int]:
    """Numbers from 0 in the same order, and how many bits they need."""
    if not len(column):
        return column, 0
    low, high = int(column.min()), int(column.max())
    if high - low >= 1 << _BITS:
        return _coded(_ranks(column))
    return column - low, (high - low).bit_length()


def _ranks(column: Whole) -> Whole:
    return np.unique(column, return_inverse=True)[1].astype(np.int64, copy=False)


def where(mask: NDArray[np.bool_]) -> Places | slice:
    """Find the rows of which a mask is true; all of them are a slice, which copies no column.

    Example:
        >>> where(np.array([True, True])), where(np.array([False, True]))
        (slice(None, None, None), array([1]))
    """
    return slice(None) if mask.all() else np.flatnonzero(mask)


def heads(ordered: NDArray[Any]) -> Places:
    """Find where each run of equal values, or of equal rows, begins.

    Example:
        >>> heads(np.array([3, 3, 7])).tolist()
        [0, 2]
    """
    begins = np.ones(len(ordered), dtype=bool)
    changes = ordered[1:] != ordered[:-1]
    begins[1:] = changes if ordered.ndim == 1 else changes.any(axis=1)
    return np.flatnonzero(begins)


def runs(start: Places, rows: int) -> Places:
    """Find the number of each row's run.

    Args:
        start: Where each run begins.
        rows: How many rows there are.

    Example:
        >>> runs(np.array([0, 2]), 3).tolist()
        [0, 0, 1]
    """
    # Each row a run of its own, as in a table of units.
    if len(start) == rows:
        return start
    return np.repeat(np.arange(len(start)), np.diff(start, append=rows))


class Groups(NamedTuple):
    """Rows that share a key.

    Attributes:
        order: Places of the rows, sorted by key, shape (rows,).
        start: Where in `order` each group begins, shape (groups,).
    """

    order: Places
    start: Places

    @classmethod
    def of(cls, key: Whole, rows: Places | None = None) -> "Groups":
        """Group rows of equal keys, in the order of the keys.

        Args:
            key: Of each row.
            rows: Places of these rows among more, to which the values belong; None for all.
        """
        order = np.argsort(key)
        return cls(order if rows is None else rows[order], heads(key[order]))

    @property
    def first(self) -> Places:
        """The place of one row of each group."""
        return self.order[self.start]

    @property
    def numbers(self) -> Places:
        """The number of each row's group, shape (rows,)."""
        number = np.empty(len(self.order), dtype=np.intp)
        number[self.order] = runs(self.start, len(self.order))
        return number

    def sum(self, values: NDArray[Any]) -> Whole:
        """The exact sum of each group."""
        return added(values[self.order], self.start)

    def min(self, values: NDArray[Any]) -> NDArray[Any]:
        """The least value of each group."""
        return reduced(np.minimum, values[self.order], self.start)

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        """The largest value of each group."""
        return reduced(np.maximum, values[self.order], self.start)


def reduced(by: np.ufunc, values: NDArray[Any], start: Places) -> NDArray[Any]:
    """Reduce each run of values to one; runs of one are not copied.

    Example:
        >>> reduced(np.minimum, np.array([5, 3, 4]), np.array([0, 2])).tolist()
        [3, 4]
    """
    return by.reduceat(values, start) if len(start) < len(values) else values


def added(values: NDArray[Any], start: Places) -> Whole:
    """The exact sum of each run of values."""
    return reduced(np.add, values.astype(np.int64, copy=False), start)


def unit_days(
    unit: NDArray[np.int32],
    in_period: NDArray[np.bool_],
    day: NDArray[np.int32],
    columns: Mapping[str, Whole],
) -> UnitDays:
    """Sum rows by unit, phase and day.

    Example:
        >>> unit, phase, day = np.array([7, 7, 6]), np.array([1, 1, 1]), np.array([3, 3, 3])
        >>> days = unit_days(unit, phase, day, {"c_1": np.array([1, 1, 1])})
        >>> days.unit.tolist(), days.columns["c_1"].tolist()
        ([6, 7], [1, 2])
    """
    groups = Groups.of(key_of(unit, in_period, day))
    sums = {name: groups.sum(values) for name, values in columns.items()}
    own = groups.first
    return UnitDays(unit[own], in_period[own], day[own], sums)


def half_away(values: Floats) -> Whole:
    """Round to whole numbers, halves away from zero, as SQL does.

    Example:
        >>> half_away(np.array([0.5, -1.5, 2.4])).tolist()
        [1, -2, 2]
    """
    whole = np.trunc(values)
    tied = np.abs(values - whole) == 0.5
    return np.where(tied, whole + np.sign(values), np.rint(values)).astype(np.int64)
