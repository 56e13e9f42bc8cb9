"""Hold analysed units and their sums by day as arrays; sum rows exactly."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

Codes = NDArray[np.int64]
"""Indices into a list, `NONE` for nothing."""

NONE = -1

NO_DAY = -(2**31)
"""The day, and the hour, of rows without a time."""

NO_FIRST, NO_LAST = 2**62, -(2**62)
"""First and last time of rows without a time."""


class Labels(NamedTuple):
    """Hold a text of each unit as an index into `names`, sorted and unique."""

    code: NDArray[np.int32]
    names: Sequence[str]


def encode_labels(texts: NDArray[np.generic]) -> Labels:
    """Encode texts as indices.

    Example:
        >>> encode_labels(np.array(["b", "a", "b"]))
        Labels(code=array([1, 0, 1], dtype=int32), names=['a', 'b'])
    """
    names, code = np.unique(texts.astype(str), return_inverse=True)
    return Labels(code.astype(np.int32), names.tolist())


class Clusters(NamedTuple):
    """Hold the clusters, sorted by name; a cluster is identified by its index.

    Attributes:
        of_unit: The cluster of each unit, shape (units,).
        variant: Index of the variant of each in the experiment file, shape (clusters,).
        stratum: Number of the stratum, or pair, of each; all 0 without any.
        slots: What is known besides of slots of clusters, where these were randomised.
    """

    of_unit: NDArray[np.int32]
    variant: NDArray[np.int8]
    stratum: NDArray[np.int32]
    slots: "SwitchbackSlots | None" = None


class SwitchbackSlots(NamedTuple):
    """Hold slots of clusters; strata are time of day and cluster.

    Attributes:
        number: Number of the slot, counted from the start of the period, shape (slots,).
        coin: Number of the coin that decided it; slots of one coin changed their variants together.
        before: Index of the slot before it of the same cluster, `NONE` where that has no rows.
        quarter: Of the slot after its burn-in, from 0, of each unit, shape (units,).
    """

    number: NDArray[np.int64]
    coin: NDArray[np.int64]
    before: NDArray[np.int64]
    quarter: NDArray[np.int8]


class Units(NamedTuple):
    """Hold the analysed units, sorted by hash; a unit is identified by its index.

    Attributes:
        hash: Hash of the unit as logged (`Engine.hash64`), each once, shape (units,).
        variant: Index of its variant in the experiment file.
        split_period: Number of the split period in which it entered; 0 where the split did not
            change.
        is_new: 1 where it was not seen before the period.
        first_ms: Its first impression in the period, or its exposure, in epoch milliseconds;
            `NO_FIRST` where that is not known.
        covariates: Columns `u_1`, … of the table of units beside the log.
        crosses: Whether the log shows it in several variants.
        clusters: What was randomised, where that are groups of units.
    """

    hash: Integers
    variant: NDArray[np.int8]
    split_period: NDArray[np.int16]
    is_new: NDArray[np.int8]
    first_ms: Integers
    segments: Mapping[str, Labels]
    covariates: Mapping[str, Integers]
    crosses: NDArray[np.bool_]
    clusters: Clusters | None = None


class UnitDays(NamedTuple):
    """Hold sums of a source by unit, phase and day, sorted by these, each once.

    Attributes:
        unit: Index of the unit in `Units`, shape (rows,).
        in_period: Whether the day is in the period; else it is before it.
        day: Local day, counted from 1970-01-01; `NO_DAY` without a time.
        columns: `c_1`, … or the columns of the source → sums, perhaps in few bytes.
    """

    unit: NDArray[np.int32]
    in_period: NDArray[np.bool_]
    day: NDArray[np.int32]
    columns: Mapping[str, NDArray[np.integer]]


Indices = NDArray[np.intp]
_Floats = NDArray[np.float64]

_ALL = slice(None)
"""All rows."""

_BITS = 63
"""Bits of a key; its sign is not used."""


def pack_key(*columns: NDArray[Any]) -> Integers:
    """Pack columns of whole numbers into one that sorts rows as they do.

    Example:
        >>> pack_key(np.array([5, 4, 5]), np.array([-1, 9, 7])).argsort().tolist()
        [1, 0, 2]
    """
    key, bits = np.zeros(len(columns[0]), dtype=np.int64), 0
    for column in columns:
        code, width = _shift_to_zero(column.astype(np.int64, copy=False))
        if bits + width > _BITS:
            # Too many bits: values are replaced by their ranks, of which there are few.
            key, bits = _shift_to_zero(unique_inverse(key)[1])
            code, width = _shift_to_zero(unique_inverse(code)[1])
        key, bits = (key << width) | code, bits + width
    return key


def _shift_to_zero(column: Integers) -> tuple[Integers, int]:
    """Shift numbers to start at 0, and count the bits that they need."""
    if not len(column):
        return column, 0
    low, high = int(column.min()), int(column.max())
    if high - low >= 1 << _BITS:
        return _shift_to_zero(unique_inverse(column)[1])
    return column - low, (high - low).bit_length()


def unique_inverse(values: NDArray[np.integer]) -> tuple[NDArray[Any], Indices]:
    """Find the values that occur, sorted, and the index of each row's.

    Example:
        >>> [array.tolist() for array in unique_inverse(np.array([9, 4, 9]))]
        [[4, 9], [1, 0, 1]]
    """
    if not len(values) or int(values.max()) - int(low := values.min()) >= _FEW:
        return np.unique(values, return_inverse=True)
    # Where the range of values is small, counting is faster than sorting.
    present = np.flatnonzero(np.bincount(code := values - low))
    index = np.zeros(int(present[-1]) + 1, dtype=np.intp)
    index[present] = np.arange(len(present))
    return present + low, index[code]


_FEW = 2**20
"""Largest range of values to count in an array; values of more are sorted."""


def count_combinations(*columns: NDArray[np.integer]) -> list[tuple[int, ...]]:
    """List each combination of values once, in order, with its number of rows.

    Example:
        >>> count_combinations(np.array([2, 0, 2]), np.array([5, 5, 5]))
        [(0, 5, 1), (2, 5, 2)]
    """
    combinations, code = unique_inverse(pack_key(*columns))
    row = np.empty(len(combinations), dtype=np.intp)
    row[code] = np.arange(len(code))
    values = (*(column[row] for column in columns), np.bincount(code, minlength=len(combinations)))
    return list(zip(*(value.tolist() for value in values), strict=True))


def find_rows(mask: NDArray[np.bool_]) -> Indices | slice:
    """Find the rows of which a mask is true.

    Example:
        >>> find_rows(np.array([True, True])), find_rows(np.array([False, True]))
        (slice(None, None, None), array([1]))
    """
    # A slice copies no column, an index does.
    return _ALL if mask.all() else np.flatnonzero(mask)


def run_starts(ordered: NDArray[Any]) -> Indices:
    """Find where each run of equal values, or of equal rows, begins.

    Example:
        >>> run_starts(np.array([3, 3, 7])).tolist()
        [0, 2]
    """
    begins = np.ones(len(ordered), dtype=bool)
    changes = ordered[1:] != ordered[:-1]
    begins[1:] = changes if ordered.ndim == 1 else changes.any(axis=1)
    return np.flatnonzero(begins)


def run_numbers(start: Indices, rows: int) -> Indices:
    """Number the run of each row, from where each run begins.

    Example:
        >>> run_numbers(np.array([0, 2]), 3).tolist()
        [0, 0, 1]
    """
    # Each row a run of its own, as in a table of units.
    if len(start) == rows:
        return start
    return np.repeat(np.arange(len(start)), np.diff(start, append=rows))


class Groups(NamedTuple):
    """Hold rows that share a key: `order` sorts rows, `start` begins each group."""

    order: Indices
    start: Indices

    @classmethod
    def build(cls, key: Integers, rows: Indices | None = None) -> "Groups":
        """Group rows of equal keys, in the order of keys.

        `rows` are their indices among more rows.
        """
        order = np.argsort(key)
        return cls(order if rows is None else rows[order], run_starts(key[order]))

    @property
    def first(self) -> Indices:
        """Return the index of one row of each group."""
        return self.order[self.start]

    @property
    def numbers(self) -> Indices:
        """Return the number of each row's group, shape (rows,)."""
        number = np.empty(len(self.order), dtype=np.intp)
        number[self.order] = run_numbers(self.start, len(self.order))
        return number

    def sum(self, values: NDArray[Any]) -> Integers:
        """Add up each group exactly."""
        return sum_runs(values[self.order], self.start)


def reduce_runs(by: np.ufunc, values: NDArray[Any], start: Indices) -> NDArray[Any]:
    """Reduce each run of values to one value.

    Example:
        >>> reduce_runs(np.minimum, np.array([5, 3, 4]), np.array([0, 2])).tolist()
        [3, 4]
    """
    # Runs of one row each need no copy.
    return by.reduceat(values, start) if len(start) < len(values) else values


def sum_runs(values: NDArray[Any], start: Indices) -> Integers:
    """Add up each run of values exactly.

    Example:
        >>> sum_runs(np.array([5, 3, 4]), np.array([0, 2])).tolist()
        [8, 4]
    """
    values = values.astype(np.int64, copy=False)
    if len(start) == len(values):
        return values
    # Of short runs, sums up to their ends take a third of the time; an overflow is in both ends.
    totals: Integers = np.cumsum(values)[np.append(start[1:], len(values)) - 1]
    totals[1:] -= totals[:-1].copy()
    return totals


def sum_by_unit_day(
    unit: Integers | NDArray[np.int32],
    in_period: NDArray[np.bool_],
    day: NDArray[np.int32],
    columns: Mapping[str, NDArray[np.integer]],
    rows: Indices | slice = _ALL,
) -> UnitDays:
    """Sum columns of some rows by unit, phase and day.

    Example:
        >>> unit, phase, day = np.array([7, 7, 6]), np.array([1, 1, 1]), np.array([3, 3, 3])
        >>> days = sum_by_unit_day(unit, phase, day, {"c_1": np.array([1, 1, 1])})
        >>> days.unit.tolist(), days.columns["c_1"].tolist()
        ([6, 7], [1, 2])
    """
    row_numbers = np.arange(len(unit))[rows]
    if len(row_numbers) == len(unit) and (unit[1:] > unit[:-1]).all():
        # A table of units: each has one row.
        return UnitDays(unit.astype(np.int32), in_period, day, columns)
    groups = Groups.build(pack_key(unit[rows], in_period[rows], day[rows]), row_numbers)
    sums = {name: groups.sum(values) for name, values in columns.items()}
    first_rows = groups.first
    return UnitDays(unit[first_rows].astype(np.int32), in_period[first_rows], day[first_rows], sums)


def round_half_away(values: _Floats) -> Integers:
    """Round to whole numbers, halves away from zero, as SQL does.

    Example:
        >>> round_half_away(np.array([0.5, -1.5, 2.4])).tolist()
        [1, -2, 2]
    """
    truncated = np.trunc(values)
    tied = np.abs(values - truncated) == 0.5
    return np.where(tied, truncated + np.sign(values), np.rint(values)).astype(np.int64)


def downcast(column: NDArray[Any]) -> NDArray[Any]:
    """Store whole numbers in the fewest bytes that hold them.

    Example:
        >>> downcast(np.array([1, 300])).dtype, downcast(np.array([0.5])).dtype
        (dtype('int16'), dtype('float64'))
    """
    # Stride 0: all rows share one value, which a cast would multiply.
    if column.dtype.kind not in "iu" or not len(column) or not column.strides[0]:
        return column
    low, high = column.min(), column.max()
    for kind in (np.int8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return column.astype(kind, copy=False)
    return column
