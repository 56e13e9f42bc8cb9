"""Analysed units, and their sums by day, as arrays: what follows the pass over a log reads them.

`placing.py` and `cells.py` make them of the cells of a log; `aggregates/` and `time/` sum them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

Codes = NDArray[np.int64]
"""Places of something in a list of it, `NONE` for nothing."""

NONE = -1

NO_DAY = -(2**31)
"""The day, and the hour, of rows without a time."""

NO_FIRST, NO_LAST = 2**62, -(2**62)
"""First and last time of rows without a time."""


class Labels(NamedTuple):
    """A text of each unit, as a code.

    Attributes:
        code: Place of the text in `names`, shape (units,).
        names: Every text once, sorted.
    """

    code: NDArray[np.int32]
    names: Sequence[str]


def labels(texts: NDArray[np.generic]) -> Labels:
    """Texts as codes.

    Example:
        >>> labels(np.array(["b", "a", "b"]))
        Labels(code=array([1, 0, 1], dtype=int32), names=['a', 'b'])
    """
    names, code = np.unique(texts.astype(str), return_inverse=True)
    return Labels(code.astype(np.int32), names.tolist())


def counted(*columns: NDArray[np.integer]) -> list[tuple[int, ...]]:
    """Each combination of values once, with how many rows have it at the end; in order.

    Example:
        >>> counted(np.array([2, 0, 2]), np.array([5, 5, 5]))
        [(0, 5, 1), (2, 5, 2)]
    """
    if not len(columns[0]):
        return []
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column, low, span in zip(columns, lows, spans, strict=True):
        code = code * span + (column - low)
    if np.prod(spans, dtype=float) <= _FEW_CODES:
        known = np.flatnonzero(counts := np.bincount(code))
        counts = counts[known]
    else:
        known, counts = np.unique(code, return_counts=True)
    values = [counts]
    for low, span in zip(reversed(lows), reversed(spans), strict=True):
        known, rest = np.divmod(known, span)
        values.append(rest + low)
    return list(zip(*(value.tolist() for value in reversed(values)), strict=True))


_FEW_CODES = 2**22
"""So many combinations are counted one by one; more are sorted."""


class Units(NamedTuple):
    """The analysed units, sorted by their hash; a unit is named by its place.

    Attributes:
        hash: Hash of the unit as logged (`Engine.hash64`), each once, shape (units,).
        variant: Place of its variant in the experiment file.
        stretch: Number of the stretch in which it entered; 0 where the split did not change.
        is_new: 1 where it was not seen before the period.
        first_ms: Its first impression in the period, or its exposure, in epoch milliseconds;
            `NO_FIRST` where that is not known.
        segments: Name of each segment → its value.
        covariates: Columns `u_1`, … of the table of units beside the log.
        crosses: Whether the log shows it in several variants.
    """

    hash: Whole
    variant: NDArray[np.int8]
    stretch: NDArray[np.int16]
    is_new: NDArray[np.int8]
    first_ms: Whole
    segments: Mapping[str, Labels]
    covariates: Mapping[str, Whole]
    crosses: NDArray[np.bool_]


class UnitDays(NamedTuple):
    """Sums of a source by unit, phase and day, sorted by unit, phase and day; each once.

    Attributes:
        unit: Place of the unit in `Units`, shape (rows,).
        in_period: Whether the day is in the period; else it is before it.
        day: Local day, counted from 1970-01-01; `NO_DAY` without a time.
        columns: `c_1`, … or the columns of the source → sums, perhaps in few bytes.
    """

    unit: NDArray[np.int32]
    in_period: NDArray[np.bool_]
    day: NDArray[np.int32]
    columns: Mapping[str, NDArray[np.integer]]
