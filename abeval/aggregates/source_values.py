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
from abeval.logs.accounting import format_day
from abeval.logs.clusters import PARTS
from abeval.logs.shape import LogSchema
from abeval.logs.unit_arrays import NO_DAY, Integers, Labels, UnitDays, Units, run_starts
from abeval.logs.units import SubBuckets
from abeval.metrics.definition import Metric, RowTerm, Term, UnitTerm, list_covariate_scales
from abeval.stats.moments import Moments

Caps = tuple[int, int | None]
"""Caps of numerator and denominator, in counted units."""

Columns = Mapping[str, NDArray[np.integer]]

_PLACES = 20
"""Number of the most deviating units to keep of each variant."""

_NAMED = 3
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
    schema: LogSchema
    units: Units
    now: Columns
    before: Columns
    _kept: dict[tuple[object, ...], NDArray[Any]] = field(default_factory=dict)

    @property
    def groups(self) -> sums.UnitGroups:
        """Return variant and split period of the units."""
        units, variants = self.units, [*self.experiment.variants]
        cluster = None if units.clusters is None else units.clusters.of_unit
        return sums.UnitGroups(units.variant, units.split_period, variants, cluster)

    def _compute_once(
        self, key: tuple[object, ...], compute: Callable[[], NDArray[Any]]
    ) -> NDArray[Any]:
        """Compute an array once."""
        # Metrics of equal values share one array, and are then summed once, too.
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def value(self, term: Term | None, columns: Columns) -> Variable:
        """Return the value of a term by unit; 1 without a term.

        Where variants serve different scores, each unit has that of its variant.
        """
        if term is None:
            return 1
        if isinstance(term, UnitTerm):
            column = self.schema.covariate(term)
            return 0 if column is None else self.units.covariates[column]
        names = [self.schema.component(term, variant) for variant in self.experiment.variants]
        if len({*names}) == 1:
            values = columns[names[0]]
            # What all units have in common is kept once (`logs/cells.py`).
            is_one = not values.strides[0] and len(values) and values[0] in (0, 1)
            return int(values[0]) if is_one else values
        chosen = [columns[name] for name in names]
        variant = self.units.variant
        key = id(columns), *names
        return self._compute_once(key, lambda: np.stack(chosen)[variant, np.arange(len(variant))])

    def pair(self, metric: Metric, columns: Columns) -> tuple[Variable, Variable]:
        """Return numerator and denominator; without a denominator, 1 per unit."""
        value = 0 if metric.value is None else self.value(metric.value, columns)
        return value, self.value(metric.per, columns)

    def take_units(
        self, indices: NDArray[np.integer], now: Columns, before: Columns | None = None
    ) -> "SourceValues":
        """Take units by index, perhaps several times, with other values."""
        all_units = self.units
        # Hashes and times are of the units still: nothing reads them here.
        units = all_units._replace(
            variant=all_units.variant[indices],
            split_period=all_units.split_period[indices],
            is_new=all_units.is_new[indices],
            segments={},
            covariates={name: column[indices] for name, column in all_units.covariates.items()},
            clusters=all_units.clusters
            and all_units.clusters._replace(of_unit=all_units.clusters.of_unit[indices]),
        )
        return SourceValues(self.experiment, self.schema, units, now, before or {})

    def sum_cells(
        self, metrics: Sequence[Metric], name: str, cell: str | Labels = "", before: bool = False
    ) -> list[SumsRow]:
        """Sum metrics, in the period or before it, in the cells of the slice `name`.

        `cell` is the cell of all these units, or the labels of the cell that each is in.
        """
        columns = self.before if before else self.now
        slices = [
            Slice(m.name, name, Terms(*self.pair(m, columns)), cell, self.included_units(m))
            for m in metrics
        ]
        return sums.sum_slices(slices, self.groups)

    def terms(self, metric: Metric) -> Terms:
        """Return numerator and denominator of each unit, in the period and before it."""
        now = self.pair(metric, self.now)
        if self.experiment.is_unit_table:
            return Terms(*now)
        before = self.pair(metric, self.before)
        is_new = self.units.is_new.astype(np.int64)
        if metric.per_unit is not None:
            # A unit without impressions before may have other rows then.
            for value in before:
                if not isinstance(value, int) or value == 0:
                    is_new = is_new * (value == 0)
        return Terms(*now, *before, is_new)

    def scorecard_terms(self, metric: Metric) -> Terms:
        """Return what the scorecard sums of a metric: capped if the metric is."""
        terms = self.terms(metric)
        if metric.cap is None:
            return terms
        caps = self.caps(metric)
        return Terms(*map(_apply_cap, terms, (*caps, *caps, None)))

    def included_units(self, metric: Metric) -> NDArray[np.bool_] | None:
        """Return the units that a metric counts, None for all."""
        of_window, has_value = (
            self._find_units_in_window(metric),
            self._find_units_with_value(metric),
        )
        if has_value is None or of_window is None:
            return of_window if has_value is None else has_value
        return self._compute_once(
            ("among", metric.among, metric.presence_terms), lambda: of_window & has_value
        )

    def _find_units_in_window(self, metric: Metric) -> NDArray[np.bool_] | None:
        if metric.among is None:
            return None
        column = metric.among.column
        return self._compute_once(("of window", column), lambda: self.now[column] == 1)

    def _find_units_with_value(self, metric: Metric) -> NDArray[np.bool_] | None:
        """Return the units with a value; None for all."""
        if metric.presence_terms is None:
            return None
        present, lacking = (self.value(term, self.now) for term in metric.presence_terms)
        if isinstance(lacking, int) and lacking == 0:
            return None
        # A unit without rows lacks no value: its sum is 0.
        return self._compute_once(
            ("known", *metric.presence_terms), lambda: np.not_equal(present, 0) | (lacking == 0)
        )

    def caps(self, metric: Metric) -> Caps:
        """Return the caps of numerator and denominator, in counted units.

        A cap is a quantile over the units of all variants together, zeros included.
        """
        terms, among = self.terms(metric), self.included_units(metric)

        def cap(value: Variable) -> int:
            values = self._select_values(value, among)
            # Of two values around the share, the larger one that occurs, so that a cap is itself a
            # value.
            rank = int(np.ceil(1 + (metric.cap or 1.0) * (len(values) - 1))) - 1
            return int(np.partition(values, rank)[rank]) if len(values) else 0

        return cap(terms.y), None if metric.per is None else cap(terms.x)

    def slices(self, metric: Metric) -> list[Slice]:
        """List a metric's slices over whole units: all, by segment, left out."""
        terms, among = self.terms(metric), self.included_units(metric)
        now = Terms(terms.y, terms.x)
        slices = [
            Slice(metric.name, sums.WHOLE, terms, mask=among),
            *(
                Slice(metric.name, sums.SEGMENT + name, now, labels, among)
                for name, labels in self.units.segments.items()
            ),
            *self.left_out(metric),
        ]
        if metric.cap is not None:
            slices.append(Slice(metric.name, sums.CAPPED, self.scorecard_terms(metric), mask=among))
        return slices

    def covariate_moments(self, metric: Metric) -> dict[Group, Moments]:
        """Return moments of (y, x, covariates, z) by group.

        z is 1 for a unit that was not seen before the period. The metric's own earlier values are
        the first covariates. Columns of a table of units are covariates of the same row, and no
        unit is new in it.
        """
        terms = self.scorecard_terms(metric)
        of_unit = any(isinstance(t, RowTerm) and t.of_unit for t in metric.covariates)
        columns = self.now if of_unit else self.before
        before = [terms.y0] if metric.per is None else [terms.y0, terms.x0]
        before += [self.value(term, columns) for term in metric.covariates]
        y, x, *worth, z = list_covariate_scales(metric)
        # One that is constant explains nothing, such as who lacks a value where nobody does.
        varying = [
            index
            for index, value in enumerate(before)
            if index < 2 or not (isinstance(value, int) or (len(value) and np.ptp(value) == 0))
        ]
        values = [
            terms.y,
            terms.x,
            *(before[index] for index in varying),
            0 if of_unit else terms.z,
        ]
        scales = [y, x, *(worth[index] for index in varying), z]
        return sums.compute_moments(values, scales, self.groups, self.included_units(metric))

    def left_out(self, metric: Metric) -> list[Slice]:
        """Count what a metric leaves out, or counts as 0, and the units left."""
        slices = [
            Slice(metric.name, sums.LEFT_OUT, Terms(self.value(term, self.now), 0), what)
            for what, term in (*metric.left_out, *metric.lacking)
        ]
        if metric.presence_terms is None:
            return slices
        has_value = self._find_units_with_value(metric)
        terms = Terms(1 if has_value is None else has_value.astype(np.int8))
        return [
            *slices,
            Slice(metric.name, sums.KNOWN, terms, mask=self._find_units_in_window(metric)),
        ]

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
                    values = self._select_values(value, None)
                    counts = np.bincount(self.units.variant, values, len(variants)).tolist()
                    pairs = zip(variants, counts, strict=True)
                    counts_text = ", ".join(f"{count:,.0f} in {name}" for name, count in pairs)
                    lacking[metric.name] = f"metric {metric.name!r}: {what}, {counts_text}"
        if not lacking:
            return
        more = f"; and {len(lacking) - _NAMED} other metrics" if len(lacking) > _NAMED else ""
        what = f"values are missing: {'; '.join([*lacking.values()][:_NAMED])}{more}"
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

    def unexposed_slice(self, metric: Metric, parts: Labels, caps: Caps | None) -> Slice:
        """Return a metric over impressions without an exposure, by part of them.

        `caps` are those of the exposed units.
        """
        terms = map(_apply_cap, self.pair(metric, self.now), caps or (None, None))
        return Slice(metric.name, sums.UNEXPOSED, Terms(*terms), parts, self.included_units(metric))

    def bucket_slice(self, metric: Metric, sub_bucket: SubBuckets) -> Slice:
        """Return the slice of a metric by group of sub-buckets."""
        terms, names = self.terms(metric), [str(number) for number in range(sums.BUCKETS)]
        groups = Labels((sub_bucket % sums.BUCKETS).astype(np.int32), names)
        return Slice(
            metric.name, sums.BUCKET, Terms(*terms[:2]), groups, self.included_units(metric)
        )

    def sum_buckets(self, metric: Metric, sub_bucket: SubBuckets | None) -> BucketSums:
        """Sum a metric by what an A/A replay deals anew.

        That is a cluster where the experiment has clusters, else a unit's sub-bucket; a unit where
        `sub_bucket`, the sub-bucket of each unit, is None.
        """
        if self.units.clusters is not None:
            y, x, y0, x0 = self.sum_clusters(metric).T[:4]
            # Clusters were all there before the period: none is new.
            return BucketSums.per_unit(y, x, np.stack([y0, x0, np.zeros_like(y)], axis=1))
        terms, among = self.scorecard_terms(metric), self.included_units(metric)
        if sub_bucket is None:
            columns = [self._select_values(value, among).astype(np.float64) for value in terms]
            # Ordered by value, so that a draw by position does not depend on the order of the log;
            # then mixed by what the values are: two logs in one order would be rejected alike.
            order = np.lexsort(columns[::-1])
            mixed = np.random.default_rng(crc32(columns[0][order].tobytes()))
            order = order[mixed.permutation(len(order))]
            y, x, *before = (column[order] for column in columns)
            return BucketSums.per_unit(y, x, np.stack(before, axis=1))
        # Numbers of 16 bits are sorted by counting.
        few = sub_bucket.astype(np.int16)
        key = "sub-buckets", id(sub_bucket)
        order = self._compute_once(key, lambda: np.argsort(few, kind="stable"))
        order = order if among is None else order[among[order]]
        starts = run_starts(few[order])
        # A denominator that is 1 of every unit is not multiplied.
        pair = terms[: 1 if isinstance(terms.x, int) and terms.x == 1 else 2]
        values = [self._select_values(value, None) for value in pair]
        every = ((0,), (1,), (0, 0), (0, 1), (1, 1))
        products = [tuple(factor for factor in product if factor < len(pair)) for product in every]
        sums_by_product = sums.sum_products_exactly(values, filter(None, products), starts, order)
        sums_by_product[()] = np.diff(starts, append=len(order)).tolist()
        table = np.zeros((SUB_BUCKETS, 6))
        of_buckets = [sums_by_product[product] for product in ((), *products)]
        table[sub_bucket[order[starts]]] = np.array(of_buckets, dtype=np.float64).T
        y, x = (self._select_values(value, order).astype(np.float64) for value in terms[:2])
        return BucketSums(
            table[:, 0], table[:, 1:], heavy=find_heavy_units(sub_bucket[order], y, x)
        )

    def sum_clusters(self, metric: Metric) -> NDArray[np.float64]:
        """Sum each cluster, shape (clusters, 8), or slot, shape (slots, 16).

        Sums are in counted units, of y, x, both before, y², yx, x², and units; of slots, besides, y
        and x of each quarter after the burn-in.
        """
        clusters, among = self.units.clusters, self.included_units(metric)
        if clusters is None:
            return np.zeros((0, 8))
        cluster = clusters.of_unit if among is None else clusters.of_unit[among]
        y, x, *before = (
            self._select_values(value, among).astype(np.float64)
            for value in self.scorecard_terms(metric)[:4]
        )
        columns = [y, x, *before, y * y, y * x, x * x, np.ones_like(y)]
        if clusters.slots is not None:
            quarter = self._select_values(clusters.slots.quarter, among)
            columns += [
                column * (quarter == part) for part in range(len(PARTS)) for column in (y, x)
            ]
        totals = [np.bincount(cluster, column, len(clusters.variant)) for column in columns]
        return np.stack(totals, axis=1)

    def _select_values(
        self, value: Variable, among: NDArray[np.bool_] | NDArray[np.intp] | None
    ) -> NDArray[Any]:
        """Select the values of the units that a metric counts."""
        values = (
            np.broadcast_to(value, len(self.units.variant)) if isinstance(value, int) else value
        )
        return values if among is None else values[among]

    def extremes(self, metric: Metric) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Find (y, x) of the twenty units that weigh most, by metric and variant.

        They are in counted units. Of equally heavy units those of larger y come first, then those
        of smaller x.
        """
        terms, among = self.scorecard_terms(metric), self.included_units(metric)
        extremes: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number, variant in enumerate(self.experiment.variants):
            chosen = self.units.variant == number
            indices = np.flatnonzero(chosen if among is None else chosen & among)
            y, x = (self._select_values(value, indices).astype(np.int64) for value in terms[:2])
            (total_y,), (total_x,) = sums.sum_products_exactly([y, x], [(0,), (1,)]).values()
            if total_x <= 0:
                continue
            # A unit's influence on a ratio is numerator − ratio × denominator.
            deviation = np.abs(y - float(total_y) / float(total_x) * x)
            least = np.partition(deviation, -min(_PLACES, len(indices)))[
                -min(_PLACES, len(indices))
            ]
            kept = np.flatnonzero(deviation >= least)
            y, x, deviation = y[kept], x[kept], deviation[kept]
            order = np.lexsort((x, -y, -deviation))[:_PLACES].tolist()
            extremes[metric.name, variant] = [(float(y[at]), float(x[at])) for at in order]
        return extremes


def _apply_cap(value: Variable, cap: int | None) -> Variable:
    if cap is None:
        return value
    return min(value, cap) if isinstance(value, int) else np.minimum(value, np.int64(cap))


def sum_days_by_unit(days: UnitDays, in_period: bool, units: int) -> dict[str, NDArray[np.integer]]:
    """Sum the days of each unit, in the period or before it; 0 without one."""
    rows = np.flatnonzero(days.in_period == in_period)
    unit, columns = days.unit[rows], days.columns
    if not len(rows) == len(days.unit) == len(run_starts(unit)) == units:
        columns = {name: sum_units(unit, column[rows], units) for name, column in columns.items()}
    # Else a row of each unit, in their order.
    return {name: unit_arrays.downcast(column) for name, column in columns.items()}


def sum_units(unit: NDArray[np.int32], values: NDArray[np.integer], units: int) -> Integers:
    """Sum the values of each unit, whose rows are together; 0 without one."""
    totals, start = np.zeros(units, dtype=np.int64), run_starts(unit)
    totals[unit[start]] = unit_arrays.sum_runs(values, start)
    return totals


def sum_metrics_by_day(
    values: SourceValues, days: UnitDays, metrics: Sequence[Metric], active: UnitDays
) -> list[SumsRow]:
    """Sum metrics of a source by day over the units active on it.

    A unit has 0 on a day that `days` of the source lack; `active` has those with an impression.
    """
    rows = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    unit, day = active.unit[rows], active.day[rows]
    names, code = unit_arrays.unique_inverse(day)
    labels = Labels(code.astype(np.int32), [str(format_day(number)) for number in names.tolist()])
    columns = days.columns
    if active is not days:
        rows = find_unit_day_rows(days, unit, day)
        # Row -1, for days that the source lacks, is the appended 0.
        columns = {n: np.append(column, column.dtype.type(0)) for n, column in columns.items()}
    day_columns = {name: column[rows] for name, column in columns.items()}
    return values.take_units(unit, day_columns).sum_cells(metrics, sums.DAY, labels)


def find_unit_day_rows(
    days: UnitDays, unit: NDArray[np.int32], day: NDArray[np.int32]
) -> NDArray[np.intp]:
    """Find the row of each unit and day in the period, -1 where missing."""
    rows = np.flatnonzero(days.in_period)
    # Unit and day in one number, which is sorted as the rows are.
    keys = days.unit[rows].astype(np.int64) * 2**32 + days.day[rows]
    keys, rows = np.append(keys, np.iinfo(np.int64).max), np.append(rows, -1)
    wanted_keys = unit.astype(np.int64) * 2**32 + day
    index = np.searchsorted(keys, wanted_keys)
    return np.where(keys[index] == wanted_keys, rows[index], -1)
