"""The sums of all metrics that have a value per unit, source by source.

`collect.py` calls it. A source's values stay at hand until the next one is loaded, so its extreme
units and its sums by sub-bucket are taken at once.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.aggregates.balance import balance_slices
from abeval.aggregates.buckets import BucketSums
from abeval.aggregates.extremes import extreme_units
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.rows import ExtremeUnit, UnitsByAuc
from abeval.aggregates.terms import Row, SourceSums
from abeval.aggregates.unit_values import UnitValue, unit_values
from abeval.aggregates.wanted import Wanted
from abeval.engines.protocol import Engine, whole
from abeval.engines.queries import query
from abeval.metrics.definition import Metric
from abeval.metrics.sources import GAUC, UNIT_DAY, Source
from abeval.steps import Step


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
    caps: Mapping[str, tuple[int, int | None]]
    buckets: Mapping[str, BucketSums]
    extremes: Sequence[ExtremeUnit]
    values: Sequence[UnitValue]
    unit_aucs: Sequence[UnitsByAuc]


class _OfSource(NamedTuple):
    """The same of one source, in the order in which it is read."""

    sums: SourceSums
    unit_aucs: Sequence[UnitsByAuc]
    extremes: Sequence[ExtremeUnit]
    values: Sequence[UnitValue]
    buckets: Mapping[str, BucketSums]


def per_unit_sums(
    queries: MetricQueries, wanted: Wanted, besides: Besides, step: Step
) -> PerUnitSums:
    """Sums of every metric that has a value per unit.

    Args:
        queries: Over prepared logs.
        wanted: The metrics.
        besides: What else is taken of each source.
        step: Called with the name of each step.
    """
    parts = []
    for source in dict.fromkeys([*wanted.sources, *([UNIT_DAY] if besides.before else [])]):
        if source.per_unit:
            step(source.title)
            parts.append(_of_source(queries, wanted, source, besides))
    return _together(parts)


def _of_source(
    queries: MetricQueries, wanted: Wanted, source: Source, besides: Besides
) -> _OfSource:
    chosen, resampled = (_of(source, metrics) for metrics in (wanted.metrics, wanted.resampled))
    balance = balance_slices(queries, besides.before if source is UNIT_DAY else ())
    return _OfSource(
        sums=queries.of_source(source, chosen, resampled, balance),
        unit_aucs=_unit_aucs(queries.engine) if source is GAUC else (),
        extremes=extreme_units(queries, chosen) if besides.extremes else (),
        values=unit_values(queries, chosen),
        buckets={m.name: queries.bucket_sums(m, besides.by_units) for m in chosen}
        if besides.buckets
        else {},
    )


def _of(source: Source, metrics: Sequence[Metric]) -> list[Metric]:
    return [metric for metric in metrics if metric.source == source]


def _unit_aucs(engine: Engine) -> list[UnitsByAuc]:
    """How many units have which AUC of their own, while `source_unit` has it."""
    engine.view("gauc_unit", "select * from source_unit")
    rows = engine.rows(query("metric/unit_aucs"))
    return [UnitsByAuc(str(name), str(fate), *map(whole, sums)) for name, fate, *sums in rows]


def _together(parts: Sequence[_OfSource]) -> PerUnitSums:
    return PerUnitSums(
        rows=[row for part in parts for row in part.sums.rows],
        caps={metric: caps for part in parts for metric, caps in part.sums.caps.items()},
        buckets={metric: sums for part in parts for metric, sums in part.buckets.items()},
        extremes=[one for part in parts for one in part.extremes],
        values=[one for part in parts for one in part.values],
        unit_aucs=[one for part in parts for one in part.unit_aucs],
    )
