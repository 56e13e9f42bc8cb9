"""Sum a metric's values by day, by pairs of days, and by unit with third moments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.inference.aa import skewness_of
from abeval.inference.comparison import Arms
from abeval.inference.special_tests import Shape
from abeval.logs.placing import Stretches
from abeval.logs.unit_arrays import Units, Whole
from abeval.metrics.definition import Metric
from abeval.stats import skewed
from abeval.stats.moments import HEAVY, Moments, are_heavy
from abeval.stats.records import Floats, Refusal
from abeval.stats.skewed import Skewed

Places = NDArray[np.int64]

Span = tuple[int, int]
"""First and last day of a window, as places on its axis."""

Strata = tuple[tuple[int, ...], ...]
"""Places of entry days, in groups of one traffic split each: units are compared within them."""

_CELLS = 1 << 21
"""Units × days whose values are written out at once."""

_SERIAL = 1 << 18
"""Smaller products of matrices are not shared out to threads, which costs more than they do."""

_BITS = 20
"""A part of a value is smaller than 2^20, so that 2^13 products are summed in doubles exactly."""


class Panel(NamedTuple):
    """The analysed units, and the days (hours, weekdays) on which each is active.

    Attributes:
        entry: Day of entry of each, as a place among the days; below 0 where it is not known.
        unit: Place of the unit of each row, shape (rows,).
        day: Place of the day of each row; sorted by unit and day, each once.
        days: How many days there are.
    """

    units: Units
    entry: NDArray[np.int64]
    unit: NDArray[np.int32]
    day: NDArray[np.int32]
    days: int

    def within(self, span: Span) -> Places:
        """Return the rows of some days."""
        return np.flatnonzero((self.day >= span[0]) & (self.day <= span[1]))

    def presences(self, variants: Sequence[str], cohorts: int) -> dict[str, "Presence"]:
        """Say when the units of each variant are active; entries may lie beyond active days."""
        entry, presences = np.clip(self.entry, 0, cohorts - 1), dict[str, Presence]()
        variant = self.units.variant[self.unit]
        for number, name in enumerate(variants):
            units = np.flatnonzero(self.units.variant == number)
            units = units[np.argsort(entry[units], kind="stable")]
            place = np.zeros(len(entry), dtype=np.int64)
            place[units] = np.arange(len(units))
            rows = np.flatnonzero(variant == number)
            rows = rows[np.argsort(place[self.unit[rows]], kind="stable")]
            unit, day = place[self.unit[rows]], self.day[rows].astype(np.int64)
            presences[name] = Presence(entry[units], unit, day, rows, cohorts, self.days)
        return presences


@dataclass(frozen=True, eq=False)
class Presence:
    """The units of one variant, in order of their day of entry, and when they are active.

    Attributes:
        cohort: Place of the day of entry of each unit, shape (units,), ascending.
        unit: Place of the unit of each row; rows are sorted by unit and day.
        day: Place of a day on which the unit is active, shape (rows,).
        rows: Where each row is in what the values are taken from.
        days: How many days there are.
    """

    cohort: Places
    unit: Places
    day: Places
    rows: Places
    cohorts: int
    days: int

    def among(self, kept: NDArray[np.bool_]) -> "Presence":
        """Return some rows of the values, without the units of which none of their rows is."""
        own = kept[self.rows]
        active, counts = (
            np.bincount(unit, minlength=len(self.cohort)) > 0
            for unit in (self.unit, self.unit[own])
        )
        counts |= ~active
        place = np.cumsum(counts) - 1
        unit, day, rows = place[self.unit[own]], self.day[own], self.rows[own]
        return Presence(self.cohort[counts], unit, day, rows, self.cohorts, self.days)

    def by_age(self, days: int) -> "Presence":
        """Return the same by days since entry, of the first days only."""
        entry = self.cohort[self.unit]
        kept = (self.day >= entry) & (self.day < days)
        age = (self.day - entry)[kept]
        return Presence(self.cohort, self.unit[kept], age, self.rows[kept], self.cohorts, days)

    @cached_property
    def entered(self) -> Whole:
        """Return units by day of entry, shape (cohorts,)."""
        return np.bincount(self.cohort, minlength=self.cohorts)

    @cached_property
    def _returns(self) -> NDArray[np.int32]:
        """Count units by entry day, 1 + active day before (0: none) and active day, cumulated."""
        before = np.zeros(len(self.day), dtype=np.int64)
        again = np.flatnonzero(self.unit[1:] == self.unit[:-1]) + 1
        before[again] = 1 + self.day[again - 1]
        returns = np.zeros((1, self.cohorts + 1, self.days + 2, self.days + 1), dtype=np.int32)
        np.add.at(returns[0], (1 + self.cohort[self.unit], 1 + before, 1 + self.day), 1)
        _cumulate(returns)
        return returns

    def units(self, cohorts: Places, spans: Places | None = None) -> Whole:
        """Return units by their days of entry, of which those with an impression in a window.

        A unit counts on its first active day of the window, the one whose active day before lies
        before the window.

        Args:
            cohorts: First and last day of entry, shape (windows, 2).
            spans: First and last day of each window; None for all that entered.
        """
        if spans is None:
            entered = np.append(0, np.cumsum(self.entered))
            return np.asarray(entered[cohorts[:, 1] + 1] - entered[cohorts[:, 0]])
        before = np.stack([np.zeros_like(spans[:, 0]), spans[:, 0]], axis=1)
        (units,) = _boxes(self._returns, cohorts, before, spans)
        return np.asarray(units, dtype=np.int64)

    def sums(self, metric: "MetricDays") -> "DaySums":
        """Return the sums of a metric."""
        bits = min(_BITS, (60 - (len(self.cohort) * self.days**2).bit_length()) // 2)
        values = [one[self.rows] for one in (metric.y, metric.x)]
        # Amounts in cents, say, are multiples of many steps of their resolution.
        steps = [max(1, int(np.gcd.reduce(own))) for own in values]
        parts = [_parts(own // step, bits) for own, step in zip(values, steps, strict=True)]
        columns = [
            (of, place, column) for of, own in enumerate(parts) for place, column in enumerate(own)
        ]
        of_y, of_x = map(len, parts)
        size, day = (self.cohorts + 1, self.days + 1), (self.days + 1,)
        sums = [np.zeros((n, *size), dtype=np.int64) for n in (of_y, of_x)]
        products = [
            np.zeros((n - 1, *size, *day), dtype=np.int64)
            for n in (2 * of_y, of_y + of_x, 2 * of_x)
        ]
        for cohort, first, dense in self._blocks([column for *_, column in columns]):
            units, count, days = dense.shape
            rows = dense.reshape(units, count * days)
            few = max(1, _SERIAL // (count * days) ** 2)
            added = sum(part.T @ part for part in np.split(rows, range(few, units, few)))
            both = np.reshape(added, (count, days, count, days)).astype(np.int64)
            for i, (of, place, _) in enumerate(columns):
                sums[of][place, cohort + 1, first + 1 :] += dense[:, i].sum(axis=0).astype(np.int64)
                for j, (other, more, _) in enumerate(columns):
                    if of <= other:
                        kept = products[of + other][place + more, cohort + 1]
                        kept[first + 1 :, first + 1 :] += both[i, :, j]
        for one in (*sums, *products):
            _cumulate(one)
        return DaySums(self, metric, sums, products, bits, steps)

    def _blocks(self, columns: Sequence[Whole]) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
        """Yield some units of a cohort at a time: it, its first day, values by column and day."""
        step = max(1, min(1 << 13, _CELLS // (len(columns) * self.days)))
        bounds = np.searchsorted(self.cohort, np.arange(self.cohorts + 1))
        for cohort, (start, stop) in enumerate(pairwise(bounds)):
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                rows = slice(*np.searchsorted(self.unit, (begin, end)))
                if rows.start == rows.stop:
                    continue
                day = self.day[rows]
                first = int(day.min())
                values = np.zeros((end - begin, len(columns), self.days - first))
                for i, column in enumerate(columns):
                    values[self.unit[rows] - begin, i, day - first] = column[rows]
                yield cohort, first, values


@dataclass(frozen=True, eq=False)
class DaySums:
    """One metric in one variant: sums over units by cohort and day, cumulated over both.

    Sums are in parts along the first axis, of which each is worth 2^`bits` of the one before, and
    of values that are divided by their `steps`.

    Attributes:
        sums: Of y, and of x or of active units for a metric per unit, shape (parts, cohorts + 1,
            days + 1) each.
        products: Of y and y, y and x, x and x on two days, shape (parts, cohorts + 1, days + 1,
            days + 1) each.
    """

    presence: Presence
    metric: "MetricDays"
    sums: Sequence[Whole]
    products: Sequence[Whole]
    bits: int
    steps: Sequence[int]

    def windows(
        self, windows: Sequence[tuple[Sequence[int], Span]], entered: bool = False
    ) -> list[Moments]:
        """Return moments of (y, x) over the units of each window: its days of entry, and its days.

        If `entered`, units count from their entry on, instead of those active in it.
        """
        ends = [(cohorts[0], cohorts[-1]) if cohorts else (0, -1) for cohorts, _ in windows]
        cohorts, spans = np.array(ends), np.array([span for _, span in windows])
        units = self.presence.units(cohorts, None if entered else spans).astype(object)
        of_y, of_x = self.steps
        y, x = (_whole(_boxes(one, cohorts, spans), self.bits) for one in self.sums)
        yy, yx, xx = (
            _whole(_boxes(one, cohorts, spans, spans), self.bits) for one in self.products
        )
        y, x, yy, yx, xx = of_y * y, of_x * x, of_y**2 * yy, of_y * of_x * yx, of_x**2 * xx
        if self.metric.per_unit:
            x, yx, xx = units, y, units
        products = np.array([[yy, yx], [yx, xx]], dtype=object)
        mean, comoment = _centred(units, np.array([y, x], dtype=object), products)
        scales = self.metric.scales
        mean, comoment = mean.T * scales, comoment.T * np.outer(scales, scales)
        heavy = self._heavy(cohorts, spans, units.astype(np.int64), x.astype(np.float64))
        return [
            Moments(n, m, square, heavy=own * scales - m)
            for n, m, square, own in zip(units.tolist(), mean, comoment, heavy, strict=True)
        ]

    def _heavy(self, cohorts: Places, spans: Places, units: Whole, x: Floats) -> list[Floats]:
        """Return y and x of the heavy units of each window; none of a metric per unit."""
        none = np.zeros((0, 2))
        if self.metric.per_unit:
            return [none] * len(spans)
        cohort, table = self._candidates(np.unique(cohorts[:, 0]))
        of_windows = list[Floats]()
        for (first, last), (start, end), n, total in zip(cohorts, spans, units, x, strict=True):
            own = table[(cohort >= first) & (cohort <= last), start : end + 1].sum(axis=1)
            own = own[own[:, 2] > 0, :2]
            of_windows.append(own[are_heavy(own[:, 1], int(n), float(total))])
        return of_windows

    def _candidates(self, starts: Places) -> tuple[Places, Floats]:
        """Return units that may be heavy in a window: cohort; y, x and 1 on each active day.

        A unit that is heavy in a window is so on a day of it among those that entered before it.
        `starts` are the first cohorts of windows; the shape is (units,) and (units, days, 3).
        """
        of = self.presence
        cohort = of.cohort[of.unit]
        cell = cohort * of.days + of.day
        y, x = (values[of.rows].astype(np.float64) for values in (self.metric.y, self.metric.x))
        size = of.cohorts, of.days
        table = np.bincount(cell, np.abs(x), of.cohorts * of.days).reshape(size)
        count = np.bincount(cell, minlength=of.cohorts * of.days).reshape(size)
        for sums in (table, count):
            for first, stop in pairwise([*starts.tolist(), of.cohorts]):
                np.cumsum(sums[first:stop], axis=0, out=sums[first:stop])
        may_be = (x > HEAVY * table.ravel()[cell]) | (HEAVY * count.ravel()[cell] <= 1)
        some = np.unique(of.unit[may_be])
        kept = np.isin(of.unit, some)
        days = np.zeros((len(some), of.days, 3))
        place = np.searchsorted(some, of.unit[kept])
        days[place, of.day[kept]] = np.stack([y[kept], x[kept], np.ones(len(place))], axis=1)
        return of.cohort[some], days

    def by_day(self, cohorts: Sequence[int], days: Sequence[int]) -> Moments:
        """Return moments of y on each day, then of x on each, over all units of the cohorts."""
        start, stop = (cohorts[0], cohorts[-1] + 1) if cohorts else (0, 0)
        units = self.presence.units(np.array([[start, stop - 1]]))[0]
        # A sum of products of 64 bits, times the units, has at most as many: so have those of sums.
        most = 2**62 // max(int(units), 1)

        def cells(sums: Whole) -> NDArray[np.integer | np.object_]:
            own = sums[:, stop] - sums[:, start]
            for axis in range(1, own.ndim):
                own = np.diff(own, axis=axis).take(days, axis=axis)
            return _whole(own, self.bits, most)

        yy, yx, xx = map(cells, self.products)
        products = np.block([[yy, yx], [yx.T, xx]])
        sums = np.append(*map(cells, self.sums)).astype(products.dtype)
        mean, comoment = _centred(units, sums, products)
        scales = np.repeat(np.multiply(self.metric.scales, self.steps), len(days))
        mean, heavy = mean * scales, self._heavy_by_day(start, stop, days)
        return Moments(int(units), mean, comoment * np.outer(scales, scales), heavy=heavy - mean)

    def _heavy_by_day(self, start: int, stop: int, days: Sequence[int]) -> Floats:
        """Return y on each day, then x on each, of the units that are heavy on one of them."""
        if self.metric.per_unit:
            return np.zeros((0, 2 * len(days)))
        cohort, table = self._candidates(np.array([start]))
        own = table[(cohort >= start) & (cohort < stop)][:, list(days)]
        own = own[own[:, :, 2].any(axis=1), :, :2] * self.metric.scales
        return own.transpose(0, 2, 1).reshape(len(own), 2 * len(days))


@dataclass(frozen=True, eq=False)
class MetricDays:
    """One metric: the values of its units by day, of which `DaySums` are made when they are needed.

    Attributes:
        days: Variant → when its units were active; `ages` by days since entry.
        y: Numerators, of which the presences say the rows; `x` denominators.
        scales: What one counted unit of y and of x is worth.
        per_unit: Whether the metric divides by units instead of by x.
    """

    days: Mapping[str, Presence]
    ages: Mapping[str, Presence]
    y: Whole
    x: Whole
    scales: tuple[float, float] = (1.0, 1.0)
    per_unit: bool = False

    def sums(self, by: Mapping[str, Presence]) -> dict[str, DaySums]:
        """Return the sums of every variant by `days` or by `ages`."""
        return {name: one.sums(self) for name, one in by.items()}


def strata_of(stretches: Stretches, days: Sequence[str]) -> Strata:
    """Return the entry days of each stretch; one group of all days where the split did not change.

    A day within which the split changed, by a schedule, is a group of its own.

    Example:
        >>> from abeval.logs.placing import Stretch
        >>> first = Stretch("2026-01-01", "2026-01-02", {}, None)
        >>> second = Stretch("2026-01-03", "2026-01-03", {}, None)
        >>> strata_of((first, second), ["2026-01-01", "2026-01-02", "2026-01-03"])
        ((0, 1), (2,))
    """
    begins = [stretch.start for stretch in stretches[1:]]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, day in enumerate(days):
        # Local times sort after their day, so that a day which a split divides has two numbers.
        at_dawn = sum(start <= day for start in begins)
        at_night = sum(start[:10] <= day for start in begins)
        groups.setdefault((at_dawn, at_night), []).append(place)
    return tuple(tuple(places) for places in groups.values())


def _parts(values: Whole, bits: int) -> list[Whole]:
    """Whole numbers as parts, of which each is worth 2^bits of the one before; the last is signed.

    Example:
        >>> [part.tolist() for part in _parts(np.array([7, -1]), 2)]
        [[3, 3], [1, -1]]
    """
    size = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    count = max(1, -(-size.bit_length() // bits))
    low = [values >> bits * i & (1 << bits) - 1 for i in range(count - 1)]
    return [*low, values >> bits * (count - 1)]


def _cumulate(sums: NDArray[np.integer]) -> None:
    """Put the sums up to each place on every axis but the first in the place of the sums."""
    # One cohort after another, whose pairs of days stay in the processor's cache.
    for cohort in range(1, sums.shape[1]):
        of_cohort = sums[:, cohort]
        for axis in range(1, of_cohort.ndim):
            np.cumsum(of_cohort, axis=axis, out=of_cohort)
        of_cohort += sums[:, cohort - 1]


def _boxes(sums: NDArray[np.integer], *sides: Places) -> Whole:
    """Return the sum over each box of cumulated sums, in parts; sides have shape (boxes, 2)."""
    totals = np.zeros((len(sums), len(sides[0])), dtype=np.int64)
    for ends in product((0, 1), repeat=len(sides)):
        corner: tuple[Any, ...] = tuple(s[:, end] + end for s, end in zip(sides, ends, strict=True))
        totals += (-1) ** (len(sides) - sum(ends)) * sums[:, *corner]
    return totals


def _whole(parts: Whole, bits: int, most: int = 0) -> NDArray[Any]:
    """Put sums in parts together: in 64 bits where none is more than `most`, else Python's."""
    worth = [1 << bits * part for part in range(len(parts))]
    largest = sum(one * int(np.abs(part).max()) for one, part in zip(worth, parts, strict=True))
    kind = np.int64 if max(largest, worth[-1]) <= most else np.object_
    return np.tensordot(np.array(worth, dtype=kind), parts.astype(kind), axes=1)


def _centred(
    units: NDArray[Any], sums: NDArray[Any], products: NDArray[Any]
) -> tuple[Floats, Floats]:
    """Means and centred co-moments of variables on the first axes, in whole numbers up to here."""
    n = np.maximum(units, 1)
    comoments = (n * products - sums[:, None] * sums) / n
    return (sums / n).astype(np.float64), comoments.astype(np.float64)


ByVariant = Mapping[str, Moments]
"""Variant → moments of (y, x), with third ones."""


@dataclass(frozen=True)
class Thirds:
    """One metric's moments with third ones: of each day, and of all days together."""

    days: Mapping[str, ByVariant]
    whole: ByVariant


class Known(NamedTuple):
    """What is known of a metric's skewness in a variant and control.

    `windows` are moments of both in days of the calendar, whether units count from entry;
    `shape` says how skewed values are in others.
    """

    windows: Mapping[tuple[Span, bool], tuple[Moments, Moments]]
    shape: Shape


def known_of(metric: Metric, thirds: Thirds, arms: Arms, days: Sequence[str]) -> Known | None:
    """Return what is known of a metric's skewness in two variants; None where nothing is."""
    whole = ((0, len(days) - 1), True)
    moments = {((i, i), False): thirds.days.get(day, {}) for i, day in enumerate(days)}
    windows = {
        key: (own[arms.control], own[arms.treatment])
        for key, own in {**moments, whole: thirds.whole}.items()
        if all(name in own for name in arms)
    }
    compared = {key: _compared(metric, *pair) for key, pair in windows.items()}
    of_all = compared.pop(whole, None)
    of_days = [one for one in compared.values() if one is not None]
    if of_all is None or not of_days:
        return None
    units = sum(one.units for one in of_days)
    of_day = sum(skewness_of(one) * one.units for one in of_days) / units
    scaled = of_all.scaled and all(one.scaled for one in of_days)
    return Known(windows, Shape(of_day, skewness_of(of_all), len(days), scaled))


def _compared(metric: Metric, control: Moments, treatment: Moments) -> Skewed | None:
    terms = (0,) if metric.kind == "mean" else (0, 1)
    compare = skewed.means if metric.kind == "mean" else skewed.ratios
    try:
        return compare(control.pick(*terms), treatment.pick(*terms))
    except Refusal:
        return None
