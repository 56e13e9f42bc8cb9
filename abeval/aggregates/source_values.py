"""Compute per-unit metric values from the columns of each source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates import sums
from abeval.aggregates.aggregates import BucketSums, find_heavy_units
from abeval.aggregates.sums import Group, Slice, SumsRow, Terms, Variable
from abeval.assignment import SUB_BUCKETS
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs import unit_arrays
from abeval.logs.accounting import day_text
from abeval.logs.clusters import PARTS
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_DAY, Labels, UnitDays, Units, Whole, heads
from abeval.logs.units import SubBuckets
from abeval.metrics.definition import Metric, RowTerm, Term, UnitTerm, covariate_scales
from abeval.stats.moments import Moments

Caps = tuple[int, int | None]
"""Caps of numerator and denominator, in counted units."""

Columns = Mapping[str, NDArray[np.integer]]

PLACES = 20
"""Number of the most deviating units to keep of each variant."""

NAMED = 3
"""Number of metrics to name in the error about missing values."""


@dataclass(frozen=True, eq=False)
class SourceValues:
    """Hold the values of one source of every analysed unit.

    Attributes:
        now: Columns of the source → what a unit's days of the period add up to, perhaps in few
            bytes.
        before: What those before the period add up to.
    """

    experiment: Experiment
    shape: LogShape
    units: Units
    now: Columns
    before: Columns
    _kept: dict[tuple[object, ...], NDArray[Any]] = field(default_factory=dict)

    @property
    def groups(self) -> sums.Groups:
        """Return variant and split period of the units."""
        units, variants = self.units, [*self.experiment.variants]
        cluster = None if units.clusters is None else units.clusters.of_unit
        return sums.Groups(units.variant, units.stretch, variants, cluster)

    def _once(self, key: tuple[object, ...], compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Compute an array once."""
        # Metrics of equal values share one array, and are then summed once, too.
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def value(self, term: Term | None, columns: Columns) -> Variable:
        """Return the value of a term by unit.

        Where variants serve different scores, each unit has that of its variant.
        """
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
        chosen = [columns[name] for name in names]
        variant = self.units.variant
        key = id(columns), *names
        return self._once(key, lambda: np.stack(chosen)[variant, np.arange(len(variant))])

    def pair(self, metric: Metric, columns: Columns) -> tuple[Variable, Variable]:
        """Return numerator and denominator; without a denominator, 1 per unit."""
        value = 0 if metric.value is None else self.value(metric.value, columns)
        return value, self.value(metric.per, columns)

    def at(
        self, places: NDArray[np.integer], now: Columns, before: Columns | None = None
    ) -> "SourceValues":
        """Take units by index, perhaps several times, with other values."""
        of = self.units
        # Hashes and times are of the units still: nothing reads them here.
        units = of._replace(
            variant=of.variant[places],
            stretch=of.stretch[places],
            is_new=of.is_new[places],
            segments={},
            covariates={name: column[places] for name, column in of.covariates.items()},
            clusters=of.clusters and of.clusters._replace(of_unit=of.clusters.of_unit[places]),
        )
        return SourceValues(self.experiment, self.shape, units, now, before or {})

    def by_cell(
        self, metrics: Sequence[Metric], name: str, cell: str | Labels = "", before: bool = False
    ) -> list[SumsRow]:
        """Sum metrics, now or before the period, in the cells of a slice."""
        columns = self.before if before else self.now
        slices = [
            Slice(m.name, name, Terms(*self.pair(m, columns)), cell, self.among(m)) for m in metrics
        ]
        return sums.sums_of(slices, self.groups)

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
        if metric.cap is None:
            return terms
        caps = self.caps(metric)
        return Terms(*map(_capped, terms, (*caps, *caps, None)))

    def among(self, metric: Metric) -> NDArray[np.bool_] | None:
        """Return the units that a metric counts, None for all."""
        of_window, known = self._of_window(metric), self._known(metric)
        if known is None or of_window is None:
            return of_window if known is None else known
        return self._once(("among", metric.among, metric.known), lambda: of_window & known)

    def _of_window(self, metric: Metric) -> NDArray[np.bool_] | None:
        if metric.among is None:
            return None
        column = metric.among.column
        return self._once(("of window", column), lambda: self.now[column] == 1)

    def _known(self, metric: Metric) -> NDArray[np.bool_] | None:
        """Return the units with a value; None for all."""
        if metric.known is None:
            return None
        known, lacking = (self.value(term, self.now) for term in metric.known)
        if isinstance(lacking, int) and lacking == 0:
            return None
        # A unit without rows lacks no value: its sum is 0.
        return self._once(("known", *metric.known), lambda: np.not_equal(known, 0) | (lacking == 0))

    def caps(self, metric: Metric) -> Caps:
        """Return the caps of numerator and denominator, in counted units.

        A cap is a quantile over the units of all variants together, zeros included.
        """
        terms, among = self.terms(metric), self.among(metric)

        def cap(value: Variable) -> int:
            values = self._of_units(value, among)
            # Of two values around the share, the larger one that occurs, so that a cap is itself a
            # value.
            place = int(np.ceil(1 + (metric.cap or 1.0) * (len(values) - 1))) - 1
            return int(np.partition(values, place)[place]) if len(values) else 0

        return cap(terms.y), None if metric.per is None else cap(terms.x)

    def slices(self, metric: Metric) -> list[Slice]:
        """List a metric's slices over whole units: all, by segment, left out."""
        terms, among = self.terms(metric), self.among(metric)
        now = Terms(terms.y, terms.x)
        slices = [
            Slice(metric.name, sums.WHOLE, terms, of=among),
            *(
                Slice(metric.name, sums.SEGMENT + name, now, labels, among)
                for name, labels in self.units.segments.items()
            ),
            *self.left_out(metric),
        ]
        if metric.cap is not None:
            slices.append(Slice(metric.name, sums.CAPPED, self.judged(metric), of=among))
        return slices

    def covariate_moments(self, metric: Metric) -> dict[Group, Moments]:
        """Return moments of (y, x, covariates, z) by group.

        The metric's own earlier values are the first covariates. Columns of a table of units are
        covariates of the same row, and no unit is new in it.
        """
        terms = self.judged(metric)
        of_unit = any(isinstance(t, RowTerm) and t.of_unit for t in metric.covariates)
        columns = self.now if of_unit else self.before
        before = [terms.y0] if metric.per is None else [terms.y0, terms.x0]
        before += [self.value(term, columns) for term in metric.covariates]
        y, x, *worth, z = covariate_scales(metric)
        # One that is constant explains nothing, such as who lacks a value where nobody does.
        varying = [
            place
            for place, value in enumerate(before)
            if place < 2 or not (isinstance(value, int) or (len(value) and np.ptp(value) == 0))
        ]
        values = [
            terms.y,
            terms.x,
            *(before[place] for place in varying),
            0 if of_unit else terms.z,
        ]
        scales = [y, x, *(worth[place] for place in varying), z]
        return sums.moments_of(values, scales, self.groups, self.among(metric))

    def left_out(self, metric: Metric) -> list[Slice]:
        """Count what a metric leaves out, or counts as 0, and the units left."""
        slices = [
            Slice(metric.name, sums.LEFT_OUT, Terms(self.value(term, self.now), 0), what)
            for what, term in (*metric.left_out, *metric.lacking)
        ]
        if metric.known is None:
            return slices
        known = self._known(metric)
        terms = Terms(1 if known is None else known.astype(np.int8))
        return [*slices, Slice(metric.name, sums.KNOWN, terms, of=self._of_window(metric))]

    def check_none_missing(self, metrics: Sequence[Metric]) -> None:
        """Raise if values are missing and a metric does not say what to do.

        Raises:
            ExperimentError: Some are.
        """
        variants, lacking = [*self.experiment.variants], dict[str, str]()
        for metric in metrics:
            for what, term in metric.lacking if metric.missing == "refuse" else ():
                value = self.value(term, self.now)
                if np.any(value):
                    whole = self._of_units(value, None)
                    counts = np.bincount(self.units.variant, whole, len(variants)).tolist()
                    pairs = zip(variants, counts, strict=True)
                    listed = ", ".join(f"{count:,.0f} in {name}" for name, count in pairs)
                    lacking[metric.name] = f"metric {metric.name!r}: {what}, {listed}"
        if not lacking:
            return
        more = f"; and {len(lacking) - NAMED} other metrics" if len(lacking) > NAMED else ""
        what = f"values are missing: {'; '.join([*lacking.values()][:NAMED])}{more}"
        ways = (
            'missing = "drop" (of a table --missing drop) leaves units without a value out, and '
            "checks that variants lack as many"
        )
        # A quantile ranks values only.
        if any(m.name in lacking and m.kind != "quantile" for m in metrics):
            ways = f'{ways}; missing = "zero" counts them as 0'
        raise ExperimentError(what, f"{ways}; or write the values into the data")

    def balance(self, metric: Metric) -> Slice:
        """Return a covariate of the units' table over all units."""
        (term,) = metric.covariates
        return Slice(metric.name, sums.BALANCE, Terms(self.value(term, self.now)))

    def in_buckets(self, metric: Metric, sub_bucket: SubBuckets) -> Slice:
        """Return the slice of a metric by group of sub-buckets."""
        terms, names = self.terms(metric), [str(number) for number in range(sums.BUCKETS)]
        groups = Labels((sub_bucket % sums.BUCKETS).astype(np.int32), names)
        return Slice(metric.name, sums.BUCKET, Terms(*terms[:2]), groups, self.among(metric))

    def buckets(self, metric: Metric, sub_bucket: SubBuckets | None) -> BucketSums:
        """Return sums for A/A replays by sub-bucket, or by unit without any."""
        if self.units.clusters is not None:
            y, x, y0, x0 = self.of_clusters(metric).T[:4]
            # Clusters were all there before the period: none is new.
            return BucketSums.of_units(y, x, np.stack([y0, x0, np.zeros_like(y)], axis=1))
        terms, among = self.judged(metric), self.among(metric)
        if sub_bucket is None:
            columns = [self._of_units(value, among).astype(np.float64) for value in terms]
            # Ordered by value, so that a draw by position does not depend on the order of the log;
            # then mixed by what the values are: two logs in one order would be rejected alike.
            order = np.lexsort(columns[::-1])
            mixed = np.random.default_rng(crc32(columns[0][order].tobytes()))
            order = order[mixed.permutation(len(order))]
            y, x, *before = (column[order] for column in columns)
            return BucketSums.of_units(y, x, np.stack(before, axis=1))
        # Numbers of 16 bits are sorted by counting.
        few = sub_bucket.astype(np.int16)
        key = "sub-buckets", id(sub_bucket)
        order = self._once(key, lambda: np.argsort(few, kind="stable"))
        order = order if among is None else order[among[order]]
        starts = heads(few[order])
        # A denominator that is 1 of every unit is not multiplied.
        pair = terms[: 1 if isinstance(terms.x, int) and terms.x == 1 else 2]
        values = [self._of_units(value, None) for value in pair]
        every = ((0,), (1,), (0, 0), (0, 1), (1, 1))
        products = [tuple(one for one in product if one < len(pair)) for product in every]
        known = sums.exact_sums(values, filter(None, products), starts, order)
        known[()] = np.diff(starts, append=len(order)).tolist()
        table = np.zeros((SUB_BUCKETS, 6))
        of_buckets = [known[product] for product in ((), *products)]
        table[sub_bucket[order[starts]]] = np.array(of_buckets, dtype=np.float64).T
        y, x = (self._of_units(value, order).astype(np.float64) for value in terms[:2])
        return BucketSums(
            table[:, 0], table[:, 1:], heavy=find_heavy_units(sub_bucket[order], y, x)
        )

    def of_clusters(self, metric: Metric) -> NDArray[np.float64]:
        """Sum each cluster, shape (clusters, 8), or slot, shape (slots, 16).

        Sums are in counted units, of y, x, both before, y², yx, x², and units; of slots, besides, y
        and x of each quarter after the burn-in.
        """
        clusters, among = self.units.clusters, self.among(metric)
        if clusters is None:
            return np.zeros((0, 8))
        cluster = clusters.of_unit if among is None else clusters.of_unit[among]
        y, x, *before = (
            self._of_units(value, among).astype(np.float64) for value in self.judged(metric)[:4]
        )
        columns = [y, x, *before, y * y, y * x, x * x, np.ones_like(y)]
        if clusters.turns is not None:
            quarter = self._of_units(clusters.turns.quarter, among)
            columns += [one * (quarter == place) for place in range(len(PARTS)) for one in (y, x)]
        totals = [np.bincount(cluster, one, len(clusters.variant)) for one in columns]
        return np.stack(totals, axis=1)

    def _of_units(
        self, value: Variable, among: NDArray[np.bool_] | NDArray[np.intp] | None
    ) -> NDArray[Any]:
        """Select the values of the units that a metric counts."""
        whole = np.broadcast_to(value, len(self.units.variant)) if isinstance(value, int) else value
        return whole if among is None else whole[among]

    def extremes(self, metric: Metric) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Find (y, x) of the twenty units that weigh most, by metric and variant.

        They are in counted units. Of equally heavy units those of larger y come first, then those
        of smaller x.
        """
        terms, among = self.judged(metric), self.among(metric)
        extremes: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number, variant in enumerate(self.experiment.variants):
            chosen = self.units.variant == number
            own = np.flatnonzero(chosen if among is None else chosen & among)
            y, x = (self._of_units(value, own).astype(np.int64) for value in terms[:2])
            (total_y,), (total_x,) = sums.exact_sums([y, x], [(0,), (1,)]).values()
            if total_x <= 0:
                continue
            # A unit's influence on a ratio is numerator − ratio × denominator.
            deviation = np.abs(y - float(total_y) / float(total_x) * x)
            least = np.partition(deviation, -min(PLACES, len(own)))[-min(PLACES, len(own))]
            kept = np.flatnonzero(deviation >= least)
            y, x, deviation = y[kept], x[kept], deviation[kept]
            order = np.lexsort((x, -y, -deviation))[:PLACES].tolist()
            extremes[metric.name, variant] = [(float(y[at]), float(x[at])) for at in order]
        return extremes


def _capped(value: Variable, cap: int | None) -> Variable:
    if cap is None:
        return value
    return min(value, cap) if isinstance(value, int) else np.minimum(value, np.int64(cap))


def totals(days: UnitDays, in_period: bool, units: int) -> dict[str, NDArray[np.integer]]:
    """Sum the days of each unit, in the period or before it; 0 without one."""
    rows = np.flatnonzero(days.in_period == in_period)
    unit, columns = days.unit[rows], days.columns
    if not len(rows) == len(days.unit) == len(heads(unit)) == units:
        columns = {name: by_unit(unit, column[rows], units) for name, column in columns.items()}
    # Else a row of each unit, in their order.
    return {name: unit_arrays.narrow(column) for name, column in columns.items()}


def by_unit(unit: NDArray[np.int32], values: NDArray[np.integer], units: int) -> Whole:
    """Sum the values of each unit, whose rows are together; 0 without one."""
    totals, start = np.zeros(units, dtype=np.int64), heads(unit)
    totals[unit[start]] = unit_arrays.added(values, start)
    return totals


def day_rows(
    values: SourceValues, days: UnitDays, metrics: Sequence[Metric], active: UnitDays
) -> list[SumsRow]:
    """Sum metrics of a source by day over the units active on it.

    A unit has 0 on a day that `days` of the source lack; `active` has those with an impression.
    """
    rows = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    unit, day = active.unit[rows], active.day[rows]
    names, code = unit_arrays.ranked(day)
    labels = Labels(code.astype(np.int32), [str(day_text(one)) for one in names.tolist()])
    columns = days.columns
    if active is not days:
        rows = rows_of(days, unit, day)
        # Row -1, for days that the source lacks, is the appended 0.
        columns = {n: np.append(column, column.dtype.type(0)) for n, column in columns.items()}
    own = {name: column[rows] for name, column in columns.items()}
    return values.at(unit, own).by_cell(metrics, sums.DAY, labels)


def rows_of(days: UnitDays, unit: NDArray[np.int32], day: NDArray[np.int32]) -> NDArray[np.intp]:
    """Find the row of each unit and day in the period, -1 where missing."""
    rows = np.flatnonzero(days.in_period)
    # Unit and day in one number, which is sorted as the rows are.
    known = days.unit[rows].astype(np.int64) * 2**32 + days.day[rows]
    known, rows = np.append(known, np.iinfo(np.int64).max), np.append(rows, -1)
    wanted = unit.astype(np.int64) * 2**32 + day
    place = np.searchsorted(known, wanted)
    return np.where(known[place] == wanted, rows[place], -1)
