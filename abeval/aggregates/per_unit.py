"""The sums of all metrics that have a value per unit, source by source.

`collect.py` calls it. A source's values are dropped before those of the next one are read.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import (
    FEW_UNITS,
    FEW_VALUES,
    BucketSums,
    ExtremeUnit,
    UnitsByAuc,
    UnitValue,
)
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.source_values import Caps, SourceValues, day_rows, totals
from abeval.aggregates.sums import Row, sums_of
from abeval.aggregates.wanted import Wanted
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, query
from abeval.logs.prepare import Prepared
from abeval.logs.unit_arrays import NO_DAY, UnitDays, Units, Whole, narrow
from abeval.logs.units import SubBuckets
from abeval.metrics.definition import GAUC, UNIT_DAY, Metric, Source
from abeval.progress import Step


class Besides(NamedTuple):
    """What is taken of a source's values besides their sums.

    Attributes:
        extremes: Whether the extreme units are.
        buckets: Whether sums by sub-bucket are, of every metric.
        by_units: Whether a sub-bucket may be a unit of its own, for the units are few.
        before: Covariates of the table of units whose sums are, as they are balanced or not.
    """

    extremes: bool
    buckets: bool
    by_units: bool
    before: Sequence[Metric]


class PerUnitSums(NamedTuple):
    """The sums of some sources; the parts are those of `Aggregates`.

    Attributes:
        rows: Rows of `moment_rows.MOMENT_COLUMNS`.
    """

    rows: Sequence[Row]
    caps: Mapping[str, Caps]
    buckets: Mapping[str, BucketSums]
    extremes: Sequence[ExtremeUnit]
    values: Sequence[UnitValue]
    unit_aucs: Sequence[UnitsByAuc]


def per_unit_sums(
    queries: MetricQueries,
    prepared: Prepared,
    wanted: Wanted,
    besides: Besides,
    bucket: SubBuckets,
    step: Step,
) -> PerUnitSums:
    """Sums of every metric that has a value per unit.

    Args:
        queries: Over prepared logs.
        prepared: What is known of them.
        wanted: The metrics.
        besides: What else is taken of each source.
        bucket: The sub-bucket of each unit, where sums by them are taken.
        step: Called with the name of each step.
    """
    experiment, units = queries.experiment, prepared.placed.units
    active = prepared.days
    rows, days = list[Row](), list[Row]()
    extremes, values = list[ExtremeUnit](), list[UnitValue]()
    caps, buckets, unit_aucs = dict[str, Caps](), dict[str, BucketSums](), list[UnitsByAuc]()
    few = len(units.hash) <= FEW_UNITS
    hidden = queries.by_stretch or experiment.privacy.min_units is not None
    counted = [m for m in wanted.metrics if not m.source.per_unit and m.left_out]
    needs_sums = bool(besides.before or counted)
    for source in dict.fromkeys([*wanted.sources, *([UNIT_DAY] if needs_sums else [])]):
        if not source.per_unit:
            continue
        step(source.title)
        metrics = [metric for metric in wanted.metrics if metric.source == source]
        resampled = [metric for metric in wanted.resampled if metric.source == source]
        own = source_days(queries, active, source, [*metrics, *resampled])
        of = values_of(queries, units, own)
        slices = [one for metric in metrics for one in of.slices(metric)]
        slices += [of.in_buckets(metric, bucket) for metric in resampled]
        if source is UNIT_DAY:
            slices += [of.balance(metric) for metric in besides.before]
            slices += [one for metric in counted for one in of.left_out(metric)]
        rows += sums_of(slices, of.groups)
        if source.daily and experiment.period is not None and queries.shape.has_time:
            days += day_rows(of, own, metrics, active)
        judged = [metric for metric in metrics if metric.is_mean_or_ratio]
        caps |= {metric.name: of.caps(metric) for metric in metrics if metric.cap is not None}
        if besides.extremes:
            extremes += [row for metric in judged for row in of.extremes(metric)]
        if few and not hidden:
            values += [row for metric in judged for row in of.few_values(metric, FEW_VALUES)]
        if besides.buckets:
            by = None if besides.by_units else bucket
            buckets |= {metric.name: of.buckets(metric, by) for metric in metrics}
        if source is GAUC:
            unit_aucs = _unit_aucs(queries, of)
    return PerUnitSums(
        rows=[*rows, *days],
        caps=caps,
        buckets=buckets,
        extremes=extremes,
        values=values,
        unit_aucs=unit_aucs,
    )


def source_days(
    queries: MetricQueries,
    active: UnitDays,
    source: Source,
    metrics: Sequence[Metric],
    by_day: bool = False,
) -> UnitDays:
    """A source by unit and day: the sums of the log, those of a kernel, or those of its query.

    Args:
        queries: Over prepared logs.
        active: The sums of the log.
        source: Any that has values per unit.
        metrics: Of a source of events: the metrics whose values it computes.
        by_day: Whether a source whose days do not add up is wanted by day.
    """
    if source is UNIT_DAY:
        return active
    if source.events is not None:
        queries.load_events(source, metrics)
        return days_of(queries.engine, source.name)
    days = None
    if queries.rows is not None:
        dated = by_day and source.of_days
        days = queries.rows.gauc_days if dated else queries.rows.days.get(source)
    if days is None:
        raise ValueError(f"nothing has read what {source} needs of the impressions")
    return days


def values_of(queries: MetricQueries, units: Units, days: UnitDays) -> SourceValues:
    """What the days of a source add up to, of each unit."""
    now, before = (
        {name: narrow(column) for name, column in totals(days, part, len(units.hash)).items()}
        for part in (True, False)
    )
    return SourceValues(queries.experiment, queries.shape, units, now, before)


def days_of(engine: Engine, relation: str) -> UnitDays:
    """A relation of `unit_id, in_period`, perhaps `day`, and sums `c_…`, as arrays."""
    arrays = engine.arrays(f"select * from {relation}")
    unit = np.ma.filled(arrays["unit_id"], 0).astype(np.int32)
    in_period = np.asarray(arrays["in_period"], dtype=bool)
    day = _days(arrays["day"]) if "day" in arrays else np.full(len(unit), NO_DAY, dtype=np.int32)
    order = np.lexsort((day, in_period, unit))
    columns: dict[str, Whole] = {
        name: np.ma.filled(column, 0).astype(np.int64)[order]
        for name, column in arrays.items()
        if name.startswith("c_")
    }
    return UnitDays(unit[order], in_period[order], day[order], columns)


def _days(
    dates: "np.ndarray[tuple[int], np.dtype[np.generic]]",
) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    days = np.ma.getdata(dates).astype("datetime64[D]").astype(np.int64)
    return np.where(np.ma.getmaskarray(dates), NO_DAY, days).astype(np.int32)


def _unit_aucs(queries: MetricQueries, of: SourceValues) -> list[UnitsByAuc]:
    """How many units have which AUC of their own."""
    variants = np.array([*queries.experiment.variants])
    queries.engine.add_arrays(
        "gauc_values",
        {f"t_{name.removeprefix('c_')}": c.astype(np.int64) for name, c in of.now.items()}
        | {"arm": of.units.variant},
    )
    arms = " ".join(f"when {n} then {literal(v)}" for n, v in enumerate(variants))
    queries.engine.view("gauc_unit", f"select *, case arm {arms} end as variant from gauc_values")
    rows = queries.engine.rows(query("metric/unit_aucs"))
    return [UnitsByAuc(str(name), str(fate), *map(whole, sums)) for name, fate, *sums in rows]
