"""Keep what each unit does on each day, and sum it over windows exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.sums import sum_gram_exactly, sum_products_exactly
from abeval.logs.unit_arrays import Integers
from abeval.stats.moments import Moments, are_heavy
from abeval.stats.records import Floats

Places = NDArray[np.int64]

Span = tuple[int, int]
"""First and last day of a window, as indices on its axis."""

Start = tuple[int, bool]
"""First day of a window, and whether units count from their entry on, active in it or not."""

_PRODUCTS = {1: [(0,), (0, 0)], 2: [(0,), (1,), (0, 0), (0, 1), (1, 1)]}
"""Number of columns → what is summed: columns, and products of two."""

_KINDS = (np.int16, np.int32, np.int64)
"""Types of totals of units, the smallest first."""


@dataclass(frozen=True, eq=False)
class DailyTable:
    """Hold the days (hours, weekdays) on which each unit is active, a row of each.

    Attributes:
        variants: Their names.
        variant: Index of the variant of each unit among them, shape (units,).
        entry: Day of entry of each, as an index of the days; below 0 where it is not known.
        unit: Index of the unit of each row, shape (rows,).
        day: Index of the day of each row; a unit has one row of it.
        days: How many days there are.
        cohorts: How many days of entry.
        observed: So many days since entry are known of the first units.
        row: Where the values of each row are in a column; None where they are in order.
        counts: Which units count; None for all.
    """

    variants: Sequence[str]
    variant: NDArray[np.integer]
    entry: Places
    unit: NDArray[np.int32]
    day: NDArray[np.int32]
    days: int
    cohorts: int
    observed: int
    row: Places | None = None
    counts: NDArray[np.bool_] | None = None

    def find_rows(self, span: Span) -> Places:
        """Find the rows of some days."""
        return np.flatnonzero((self.day >= span[0]) & (self.day <= span[1]))

    def restrict_to(self, kept: NDArray[np.bool_]) -> "DailyTable":
        """Keep the selected rows; drop units left without any."""
        rows, size = np.flatnonzero(kept), len(self.entry)
        had, has = (
            np.bincount(units, minlength=size) > 0 for units in (self.unit, self.unit[rows])
        )
        # Units that never had a row still count, with 0 on every day.
        return self._keep(rows, self.day[rows], counts=has | ~had)

    @cached_property
    def since_entry(self) -> "DailyTable":
        """Return the same table by days since entry."""
        age = (self.day - self._cohort[self.unit]).astype(np.int32)
        # A last day that is not whole would make the latest ages look low.
        rows = np.flatnonzero((age >= 0) & (self.day < self.observed))
        return replace(self._keep(rows, age[rows], self.counts), days=self.observed)

    def _keep(
        self, rows: Places, day: NDArray[np.int32], counts: NDArray[np.bool_] | None
    ) -> "DailyTable":
        row = rows if self.row is None else self.row[rows]
        return replace(self, unit=self.unit[rows], day=day, row=row, counts=counts)

    @property
    def _cohort(self) -> Places:
        """Return the day of entry of each unit, within the days of the table."""
        return np.clip(self.entry, 0, self.cohorts - 1)

    @cached_property
    def _order(self) -> tuple[Places, Places]:
        """Order units by variant and day of entry; return where each group begins."""
        group = self.variant * np.int64(self.cohorts) + self._cohort
        order = np.argsort(group, kind="stable")
        order = order if self.counts is None else order[self.counts[order]]
        groups = np.arange(len(self.variants) * self.cohorts + 1)
        return order, np.searchsorted(group[order], groups)

    @property
    def entry_counts(self) -> Integers:
        """Count units by day of entry, shape (variants, cohorts)."""
        return np.diff(self._order[1]).reshape(len(self.variants), self.cohorts)

    def find_unit_columns(self, variant: str, cohorts: Sequence[int]) -> slice:
        """Find the columns of `cumulate` of consecutive days of entry."""
        if not cohorts:
            return slice(0)
        first, bounds = self.variants.index(variant) * self.cohorts, self._order[1]
        return slice(bounds[first + cohorts[0]], bounds[first + cohorts[-1] + 1])

    def cumulate(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Add up each unit's values before each day, shape (days + 1, units).

        The last row has the totals of all days.
        """
        order, row_values = self._order[0], values if self.row is None else values[self.row]
        column_index = np.empty(len(self.entry), dtype=np.intp)
        column_index[order] = np.arange(len(order))
        largest = np.bincount(self.unit, np.abs(row_values)).max(initial=0)
        kind = next((kind for kind in _KINDS if largest < np.iinfo(kind).max), np.int64)
        table = np.zeros((self.days + 1, len(order)), dtype=kind)
        # Row 0 stays 0, so that a window is a difference of two rows.
        table[self.day + 1, column_index[self.unit]] = row_values
        return np.add.accumulate(table, axis=0, dtype=kind, out=table)


@dataclass(frozen=True, eq=False)
class MetricDays:
    """Hold one metric's values by unit and day, to be cumulated when needed.

    Attributes:
        y: Numerators, of which the table says the rows; `x` denominators.
        scales: What one counted unit of y and of x is worth.
        per_unit: Whether the metric divides by units instead of by x.
    """

    table: DailyTable
    y: NDArray[np.integer]
    x: NDArray[np.integer]
    scales: tuple[float, float] = (1.0, 1.0)
    per_unit: bool = False

    def sum_days(self, since_entry: bool = False) -> "DaySums":
        """Cumulate over the days of the calendar, or since each unit's entry."""
        table = self.table.since_entry if since_entry else self.table
        active, y = (table.cumulate(values) for values in (np.ones(len(self.y), np.int8), self.y))
        x = active if self.per_unit else table.cumulate(self.x)
        return DaySums(table, self.scales, active, y, x)


@dataclass(frozen=True, eq=False)
class DaySums:
    """Hold one metric's values of each unit, cumulated over the days of an axis.

    Attributes:
        active: Days on which a unit is active before each day, shape (days + 1, units).
        y: Numerators by then.
        x: Denominators; `active` itself of a metric per unit.
    """

    table: DailyTable
    scales: tuple[float, float]
    active: NDArray[np.integer]
    y: NDArray[np.integer]
    x: NDArray[np.integer]

    @property
    def is_per_unit(self) -> bool:
        """Tell whether the metric divides by units."""
        return self.x is self.active

    def sum_windows(
        self, variant: str, cohorts: Sequence[int], last: int, starts: Sequence[Start]
    ) -> list[Moments]:
        """Return moments of (y, x) over units, in windows that end on one day.

        The units are those with a day of entry in `cohorts`.
        """
        units, first = self.table.find_unit_columns(variant, cohorts), [day for day, _ in starts]
        tables = (self.active, self.y) if self.is_per_unit else (self.active, self.y, self.x)
        active, *columns = (table[last + 1, units] - table[first, units] for table in tables)
        is_active, size = active > 0, active.shape[1]
        if size == 0:
            return [Moments.from_sums(0, [0, 0], [[0, 0], [0, 0]], self.scales)] * len(starts)
        active_counts = zip(is_active.sum(axis=1).tolist(), starts, strict=True)
        counts = [size if entered else n for n, (_, entered) in active_counts]
        flat, begins = [column.ravel() for column in columns], np.arange(len(starts)) * size
        sums = sum_products_exactly(flat, _PRODUCTS[len(columns)], begins)
        windows = list[Moments]()
        for i, (n, *found) in enumerate(zip(counts, *sums.values(), strict=True)):
            # A metric per unit divides by the units that count: its x is 1.
            y, x, yy, yx, xx = found if len(columns) == 2 else (found[0], n, found[1], found[0], n)
            moments = Moments.from_sums(n, [y, x], [[yy, yx], [yx, xx]], self.scales)
            for below in (column[i] for column in columns[1:]):
                kept = is_active[i] & are_heavy(below.astype(np.float64), n, float(x))
                moments = _add_heavy(moments, [columns[0][i, kept], below[kept]], self.scales)
            windows.append(moments)
        return windows

    def sum_each_day(self, variant: str, cohorts: Sequence[int], days: Sequence[int]) -> Moments:
        """Return moments of y on each day, then of x on each, over all units."""
        units, day_index = self.table.find_unit_columns(variant, cohorts), np.array(days)
        tables = self.y, self.x, self.active
        y, x, active = (t[day_index + 1, units] - t[day_index, units] for t in tables)
        columns = [*y, *x]
        gram = sum_gram_exactly([np.ones_like(columns[0]), *columns])
        n, scales = int(gram[0, 0]), np.repeat(self.scales, len(days))
        moments = Moments.from_sums(n, gram[0, 1:].tolist(), gram[1:, 1:].tolist(), scales.tolist())
        if self.is_per_unit:
            return moments
        totals = gram[0, 1 + len(days) :].tolist()
        of_days = zip(x.astype(np.float64), totals, strict=True)
        kept = [are_heavy(values, n, float(total)) for values, total in of_days]
        # A unit that is heavy on one day is listed with its values of all days.
        some = np.flatnonzero(np.any(kept, axis=0) & np.any(active > 0, axis=0))
        return _add_heavy(moments, [column[some] for column in columns], scales)


def _add_heavy(
    moments: Moments, values: Sequence[NDArray[np.integer]], scales: Sequence[float] | Floats
) -> Moments:
    """Add the values of heavy units to moments; they have none yet."""
    if not len(values[0]):
        return moments
    return replace(moments, heavy=np.array(values).T * scales - moments.mean)
