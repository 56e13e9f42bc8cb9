"""Compute what metrics are of each analysed unit, from the columns of their source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import BucketSums, ExtremeUnit
from abeval.aggregates.sums import (
    BALANCE,
    BUCKET,
    BUCKETS,
    CAPPED,
    COVARIATES,
    DAY,
    LEFT_OUT,
    SEGMENT,
    WHOLE,
    Groups,
    Row,
    Slice,
    Terms,
    Variable,
    exact_sums,
    sums_of,
)
from abeval.assignment import SUB_BUCKETS
from abeval.experiment.model import Experiment
from abeval.logs.accounting import day_text
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_DAY, Labels, UnitDays, Units, Whole, added, heads, ranked
from abeval.logs.units import SubBuckets
from abeval.metrics.definition import Metric, RowTerm, Term, UnitTerm

Caps = tuple[int, int | None]
"""Caps of numerator and denominator, in counted units."""

PLACES = 20
"""So many units of each variant are kept that deviate most."""


@dataclass(frozen=True, eq=False)
class SourceValues:
    """The values of one source of every analysed unit.

    Attributes:
        experiment: What is analysed.
        shape: What its logs have.
        units: The units.
        now: Columns of the source → what a unit's days of the period add up to, perhaps in few
            bytes.
        before: What those before the period add up to.
    """

    experiment: Experiment
    shape: LogShape
    units: Units
    now: Mapping[str, NDArray[np.integer]]
    before: Mapping[str, NDArray[np.integer]]
    _kept: dict[tuple[object, ...], NDArray[Any]] = field(default_factory=dict)

    @property
    def groups(self) -> Groups:
        """Variant and stretch of the units."""
        return Groups(self.units.variant, self.units.stretch, [*self.experiment.variants])

    def value(self, term: Term | None, columns: Mapping[str, NDArray[np.integer]]) -> Variable:
        """Return the value of a term; where variants serve different scores, each variant's own."""
        if term is None:
            return 1
        if isinstance(term, UnitTerm):
            column = self.shape.covariate(term)
            return 0 if column is None else self.units.covariates[column]
        names = [self.shape.component(term, variant) for variant in self.experiment.variants]
        if len({*names}) == 1:
            values = columns[names[0]]
            # What all units have in common is kept once (`logs/cells.py`).
            is_one = not values.strides[0] and len(values) and values[0] in (0, 1)
            return int(values[0]) if is_one else values
        key = (id(columns), *names)
        if key not in self._kept:
            chosen = np.stack([columns[name] for name in names])
            self._kept[key] = chosen[self.units.variant, np.arange(len(chosen[0]))]
        return self._kept[key]

    def pair(
        self, metric: Metric, columns: Mapping[str, NDArray[np.integer]]
    ) -> tuple[Variable, Variable]:
        """Numerator and denominator; a metric without a denominator is per unit."""
        value = 0 if metric.value is None else self.value(metric.value, columns)
        return value, self.value(metric.per, columns)

    def at(
        self,
        places: NDArray[np.integer],
        now: Mapping[str, NDArray[np.integer]],
        before: Mapping[str, NDArray[np.integer]] | None = None,
    ) -> "SourceValues":
        """Return other values of units at places, which may be there several times."""
        of = self.units
        units = Units(
            *(of.hash[places], of.variant[places], of.stretch[places]),
            *(of.is_new[places], of.first_ms[places], {}),
            {name: column[places] for name, column in of.covariates.items()},
            of.crosses[places],
        )
        return SourceValues(self.experiment, self.shape, units, now, before or {})

    def by_cell(
        self, metrics: Sequence[Metric], name: str, cell: str | Labels = "", before: bool = False
    ) -> list[Row]:
        """Sum metrics, as they are now or were before, in the cells of a slice."""
        columns = self.before if before else self.now
        terms = [Terms(*self.pair(metric, columns)) for metric in metrics]
        slices = [Slice(m.name, name, own, cell) for m, own in zip(metrics, terms, strict=True)]
        return sums_of(slices, self.groups)

    def terms(self, metric: Metric) -> Terms:
        """Return what is summed of a metric."""
        now = self.pair(metric, self.now)
        if self.experiment.of_units:
            return Terms(*now)
        before = self.pair(metric, self.before)
        is_new = self.units.is_new.astype(np.int64)
        if metric.per_unit is not None:
            # A unit without impressions before may have other rows then.
            for value in before:
                if not isinstance(value, int) or value == 0:
                    is_new = is_new * (value == 0)
        return Terms(*now, *before, is_new)

    def judged(self, metric: Metric) -> Terms:
        """Return what the scorecard sums of a metric: capped if the metric is."""
        terms = self.terms(metric)
        return terms if metric.cap is None else _capped(terms, self.caps(metric))

    def among(self, metric: Metric) -> NDArray[np.bool_] | None:
        """Return the units that a metric is of, None for all."""
        if metric.among is None:
            return None
        key = ("among", metric.among.column)
        if key not in self._kept:
            self._kept[key] = self.now[metric.among.column] == 1
        return self._kept[key]

    def caps(self, metric: Metric) -> Caps:
        """Caps over the units of all variants together, zeros included, in counted units."""
        terms, among = self.terms(metric), self.among(metric)
        y = _cap(terms.y, among, metric.cap or 1.0)
        return y, None if metric.per is None else _cap(terms.x, among, metric.cap or 1.0)

    def slices(self, metric: Metric) -> list[Slice]:
        """List a metric's slices over whole units: all, with covariates, by segment, left out."""
        terms, among = self.terms(metric), self.among(metric)
        now = Terms(terms.y, terms.x)
        return [
            Slice(metric.name, WHOLE, terms, of=among),
            *self._of_covariates(metric, terms),
            *(
                Slice(metric.name, SEGMENT + name, now, labels, among)
                for name, labels in self.units.segments.items()
            ),
            *self.left_out(metric),
            *(
                [Slice(metric.name, CAPPED, self.judged(metric), of=among)]
                if metric.cap is not None
                else []
            ),
        ]

    def _of_covariates(self, metric: Metric, terms: Terms) -> list[Slice]:
        """Return sums with each pair of covariates in place of the metric's own earlier values.

        Columns of a table of units are covariates of the same row, and no unit is new in it.
        """
        if not metric.covariates:
            return []
        of_unit = any(isinstance(t, RowTerm) and t.of_unit for t in metric.covariates)
        columns = self.now if of_unit else self.before
        own = [terms.y0] if metric.per is None else [terms.y0, terms.x0]
        values = [*own, *(self.value(term, columns) for term in metric.covariates)]
        terms = terms._replace(z=0) if of_unit else terms
        return [
            Slice(
                *(metric.name, COVARIATES, terms._replace(y0=first, x0=second)),
                *(f"{i},{j}", self.among(metric)),
            )
            for (i, first), (j, second) in combinations(enumerate(values), 2)
        ]

    def left_out(self, metric: Metric) -> list[Slice]:
        """Counts of what the definition of a metric leaves out, or counts as 0."""
        return [
            Slice(metric.name, LEFT_OUT, Terms(self.value(term, self.now), 0), what)
            for what, term in (*metric.left_out, *metric.zeros)
        ]

    def balance(self, metric: Metric) -> Slice:
        """Return a covariate of the table of units over all units."""
        (term,) = metric.covariates
        return Slice(metric.name, BALANCE, Terms(self.value(term, self.now)))

    def in_buckets(self, metric: Metric, sub_bucket: SubBuckets) -> Slice:
        """Return a metric by group of sub-buckets."""
        terms = self.terms(metric)
        groups = Labels(
            (sub_bucket % BUCKETS).astype(np.int32), [str(number) for number in range(BUCKETS)]
        )
        return Slice(metric.name, BUCKET, Terms(terms.y, terms.x), groups, self.among(metric))

    def buckets(self, metric: Metric, sub_bucket: SubBuckets | None) -> BucketSums:
        """Return sums for A/A replays: by sub-bucket, or by unit where there is none."""
        terms, among = self.judged(metric), self.among(metric)
        if sub_bucket is None:
            columns = [self._of_units(value, among).astype(np.float64) for value in terms]
            # Ordered by value, so that a draw by position does not depend on the order of the log.
            order = np.lexsort(columns[::-1])
            y, x, *before = (column[order] for column in columns)
            return BucketSums.of_units(y, x, np.stack(before, axis=1))
        key = ("sub-buckets", id(sub_bucket))
        if key not in self._kept:
            # Numbers of 16 bits are sorted by counting.
            self._kept[key] = np.argsort(sub_bucket.astype(np.int16), kind="stable")
        order = self._kept[key] if among is None else self._kept[key][among[self._kept[key]]]
        starts = heads(sub_bucket[order])
        # A denominator that is 1 of every unit is not multiplied.
        pair = terms[: 1 if isinstance(terms.x, int) and terms.x == 1 else 2]
        values = [self._of_units(value, None) for value in pair]
        every = ((0,), (1,), (0, 0), (0, 1), (1, 1))
        products = [tuple(one for one in product if one < len(pair)) for product in every]
        units = np.diff(starts, append=len(order))
        known = exact_sums(values, filter(None, products), starts, order) or {}
        sums = {**known, (): units.tolist()}
        table = np.zeros((SUB_BUCKETS, 6))
        for place, product in enumerate(((), *products)):
            table[sub_bucket[order[starts]], place] = [float(one) for one in sums[product]]
        return BucketSums(table[:, 0], table[:, 1:])

    def _of_units(self, value: Variable, among: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return the values of the units that a metric is of."""
        whole = np.broadcast_to(value, len(self.units.hash)) if isinstance(value, int) else value
        return whole if among is None else whole[among]

    def extremes(self, metric: Metric) -> list[ExtremeUnit]:
        """Return the twenty units of each variant that weigh most, without their ids.

        A unit moves a ratio by its numerator above what its denominator makes expect; of equal
        ones, those of larger y come first, then those of smaller x.
        """
        terms = self.judged(metric)
        rows = []
        for number, variant in sorted(enumerate(self.experiment.variants), key=lambda v: v[1]):
            if ("units of", number) not in self._kept:
                self._kept["units of", number] = np.flatnonzero(self.units.variant == number)
            own = self._kept["units of", number]
            y, x = (
                np.broadcast_to(value, len(own))
                if isinstance(value, int)
                else value[own].astype(np.int64)
                for value in terms[:2]
            )
            sums = exact_sums([y, x], [(0,), (1,)])
            if sums is None or sums[1,][0] <= 0:
                continue
            total_y, total_x = float(sums[0,][0]), float(sums[1,][0])
            deviation = np.abs(y - total_y / total_x * x)
            if len(own) > PLACES:
                least = np.partition(deviation, -PLACES)[-PLACES]
                kept = np.flatnonzero(deviation >= least)
                y, x, deviation = y[kept], x[kept], deviation[kept]
            order = np.lexsort((x, -y, -deviation))[:PLACES]
            pairs = zip(y[order].tolist(), x[order].tolist(), strict=True)
            rows += [
                ExtremeUnit(metric.name, variant, place, str(one_y), str(one_x))
                for place, (one_y, one_x) in enumerate(pairs, start=1)
            ]
        return rows


def _capped(terms: Terms, caps: Caps) -> Terms:
    y_cap, x_cap = caps

    def cut(value: Variable, cap: int | None) -> Variable:
        if cap is None:
            return value
        return min(value, cap) if isinstance(value, int) else np.minimum(value, np.int64(cap))

    y, x, y0, x0, z = terms
    return Terms(cut(y, y_cap), cut(x, x_cap), cut(y0, y_cap), cut(x0, x_cap), z)


def _cap(value: Variable, among: NDArray[np.bool_] | None, level: float) -> int:
    """Return the value below which a share of the units lies: the next larger one that occurs."""
    if isinstance(value, int):
        return value
    values = value if among is None else value[among]
    if not len(values):
        return 0
    place = int(np.ceil(1 + level * (len(values) - 1))) - 1
    return int(np.partition(values, place)[place])


def totals(days: UnitDays, in_period: bool, units: int) -> dict[str, Whole]:
    """Return what the days of each unit add up to, in the period or before it; 0 without one."""
    rows = np.flatnonzero(days.in_period == in_period)
    unit = days.unit[rows]
    start = heads(unit)
    if len(rows) == len(days.unit) == len(start) == units:
        # A row of each unit, in their order.
        return {n: column.astype(np.int64, copy=False) for n, column in days.columns.items()}
    return {name: by_unit(unit, column[rows], units) for name, column in days.columns.items()}


def by_unit(unit: NDArray[np.int32], values: NDArray[np.integer], units: int) -> Whole:
    """Add up the values of each unit, of which the rows are together; 0 without one."""
    sums, start = np.zeros(units, dtype=np.int64), heads(unit)
    sums[unit[start]] = added(values, start)
    return sums


def day_rows(
    values: SourceValues, days: UnitDays, metrics: Sequence[Metric], active: UnitDays
) -> list[Row]:
    """Return sums of metrics by day over the units that are active on it.

    Args:
        values: Of the source.
        days: The source by unit and day; a unit has 0 on a day that it lacks.
        metrics: Metrics of the source.
        active: Days of the units, with an impression.
    """
    rows = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    unit, day = active.unit[rows], active.day[rows]
    names, code = ranked(day)
    labels = Labels(code.astype(np.int32), [str(day_text(one)) for one in names.tolist()])
    own = rows if active is days else rows_of(days, unit, day)
    columns = {
        name: (column if active is days else np.append(column, column.dtype.type(0)))[own]
        for name, column in days.columns.items()
    }
    return values.at(unit, columns).by_cell(metrics, DAY, labels)


def rows_of(days: UnitDays, unit: NDArray[np.int32], day: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the row of each unit and day in the period; -1 where there is none."""
    rows = np.flatnonzero(days.in_period)
    known = days.unit[rows].astype(np.int64) * 2**32 + days.day[rows]
    wanted = unit.astype(np.int64) * 2**32 + day
    if not len(known):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, rows[place], -1)
