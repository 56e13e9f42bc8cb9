"""Sums over units by day of entry and day, from which every window follows.

Sums over units of y(day) · y(later day) give the sums of squares of any window's totals, for a
window's total is a sum over days. They are kept by day of entry (cohort), so that days of the
calendar and days since entry come from the same numbers, and cohorts can be weighted where traffic
shares changed. `time/day_pairs.py` makes them; `time/axes.py` computes the moments of windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats.moments import Moments

Whole = NDArray[Any]
"""Whole numbers: 64-bit where they fit, else Python's own."""

Span = tuple[int, int]
"""First and last day of a window, as places on its axis."""


@dataclass(frozen=True, eq=False)
class Activity:
    """When the units of one variant were active.

    Attributes:
        entered: Units by day of entry, shape (cohorts,).
        returns: Units by day of entry, 1 + their active day before (0 for none), and active day;
            shape (cohorts, days + 1, days).
    """

    entered: Whole
    returns: Whole

    def active(self, cohorts: Sequence[int], span: Span) -> int:
        """Units with an impression in a window.

        A unit counts on its first active day of the window, the one whose active day before lies
        before the window.

        Example:
            >>> Activity.of([0, 0], [[1, 1, 0], [0, 1, 1]]).active([0], (1, 2))
            2
        """
        first, last = span
        return int(self.returns[list(cohorts), : first + 1, first : last + 1].sum())

    @classmethod
    def of(cls, cohort: ArrayLike, active: ArrayLike) -> "Activity":
        """From units' days of entry, shape (units,), and who was active, shape (units, days)."""
        is_active = np.asarray(active, dtype=bool)
        entry, days = np.asarray(cohort), is_active.shape[1]
        returns = np.zeros((days, days + 1, days), dtype=np.int64)
        before = np.zeros(len(is_active), dtype=np.int64)
        for day in range(days):
            on = is_active[:, day]
            np.add.at(returns, (entry[on], before[on], day), 1)
            before[on] = day + 1
        return cls(np.bincount(entry, minlength=days), returns)

    def by_age(self) -> "Activity":
        """The same by days since entry."""
        days = len(self.entered)
        moved = np.zeros_like(self.returns)
        for cohort in range(days):
            left = days - cohort
            moved[cohort, 0, :left] = self.returns[cohort, : cohort + 1, cohort:].sum(axis=0)
            moved[cohort, 1 : left + 1, :left] = self.returns[cohort, cohort + 1 :, cohort:]
        return Activity(self.entered, moved)


@dataclass(frozen=True, eq=False)
class DaySums:
    """One metric in one variant: sums over units by cohort and day.

    Attributes:
        activity: When its units were active.
        y: Sums of the numerator, shape (cohorts, days).
        x: Sums of the denominator; of active units for a metric per unit.
        yy: Sums of products of y on two days, shape (cohorts, days, days), symmetric.
        yx: Of y on a day with x on another.
        xx: Of x on two days, symmetric.
        scales: What one counted unit of y and of x is worth.
        per_unit: Whether the metric divides by units instead of by x.
    """

    activity: Activity
    y: Whole
    x: Whole
    yy: Whole
    yx: Whole
    xx: Whole
    scales: tuple[float, float] = (1.0, 1.0)
    per_unit: bool = False

    @classmethod
    def of(cls, cohort: ArrayLike, active: ArrayLike, y: ArrayLike, x: ArrayLike) -> "DaySums":
        """From whole numbers per unit and day, shape (units, days).

        Args:
            cohort: Day of entry of each unit, shape (units,).
            active: Which units were active on which days, shape (units, days).
            y: Numerators, zero where not active.
            x: Denominators; the same as `active` for a metric per unit.
        """
        entry, days = np.asarray(cohort), np.shape(y)[1]
        v = np.hstack([np.asarray(y), np.asarray(x)]).astype(np.float64)
        sums = np.zeros((days, 2 * days))
        products = np.zeros((days, 2 * days, 2 * days))
        for c in np.unique(entry):
            rows = v[entry == c]
            sums[c], products[c] = rows.sum(axis=0), rows.T @ rows
        y_sums, x_sums = np.split(np.rint(sums).astype(np.int64), 2, axis=1)
        of_y, of_x = np.split(np.rint(products).astype(np.int64), 2, axis=1)
        yy, yx = np.split(of_y, 2, axis=2)
        _, xx = np.split(of_x, 2, axis=2)
        return cls(Activity.of(entry, active), y_sums, x_sums, yy, yx, xx)

    def by_age(self) -> "DaySums":
        """The same by days since the unit's entry."""
        return replace(
            self,
            activity=self.activity.by_age(),
            y=_shifted(self.y),
            x=_shifted(self.x),
            yy=_shifted(_shifted(self.yy, 1), 2),
            yx=_shifted(_shifted(self.yx, 1), 2),
            xx=_shifted(_shifted(self.xx, 1), 2),
        )

    def upto(self, days: int) -> "DaySums":
        """The sums of the first days and cohorts only."""
        active = self.activity
        return replace(
            self,
            activity=Activity(active.entered[:days], active.returns[:days, : days + 1, :days]),
            y=self.y[:days, :days],
            x=self.x[:days, :days],
            yy=self.yy[:days, :days, :days],
            yx=self.yx[:days, :days, :days],
            xx=self.xx[:days, :days, :days],
        )

    def window(self, cohorts: Sequence[int], span: Span, entered: bool = False) -> Moments:
        """Moments of (y, x) over the units of a window.

        Args:
            cohorts: Days of entry of the units.
            span: The window's days.
            entered: Whether units count from their entry on, instead of those active in it.
        """
        rows, days = list(cohorts), slice(span[0], span[1] + 1)
        n = int(self.activity.entered[rows].sum())
        units = n if entered else self.activity.active(rows, span)
        y = _total(self.y[rows, days])
        yy = _total(self.yy[rows, days, days])
        if self.per_unit:
            return Moments.from_sums(units, [y, units], [[yy, y], [y, units]], self.scales)
        x, yx = _total(self.x[rows, days]), _total(self.yx[rows, days, days])
        xx = _total(self.xx[rows, days, days])
        return Moments.from_sums(units, [y, x], [[yy, yx], [yx, xx]], self.scales)

    def by_day(self, cohorts: Sequence[int], days: Sequence[int]) -> Moments:
        """Moments of y on each of the days, then of x on each, over all units of the cohorts."""
        rows, chosen = list(cohorts), list(days)
        grid = np.ix_(rows, chosen, chosen)
        yy, yx, xx = (p[grid].sum(axis=0) for p in (self.yy, self.yx, self.xx))
        y, x = (v[np.ix_(rows, chosen)].sum(axis=0) for v in (self.y, self.x))
        products = np.block([[yy, yx], [yx.T, xx]])
        n = int(self.activity.entered[rows].sum())
        steps = [scale for scale in self.scales for _ in chosen]
        return Moments.from_sums(n, [*y.tolist(), *x.tolist()], products.tolist(), steps)


def _total(values: Whole) -> int:
    return int(values.sum())


def _shifted(values: Whole, axis: int = 1) -> Whole:
    """Each cohort's days moved to the front, by the place of the cohort."""
    moved = np.zeros_like(values)
    for cohort in range(len(values)):
        whole = np.moveaxis(values[cohort], axis - 1, 0)
        target = np.moveaxis(moved[cohort], axis - 1, 0)
        target[: len(whole) - cohort] = whole[cohort:]
    return moved
