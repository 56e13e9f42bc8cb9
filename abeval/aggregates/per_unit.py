"""The sums of all metrics that have a value per unit, source by source.

`collect.py` calls it. A source's values stay at hand until the next one is loaded, so its extreme
units and its sums by sub-bucket are taken at once.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from abeval.aggregates.balance import balance_slices
from abeval.aggregates.buckets import BucketSums
from abeval.aggregates.extremes import extreme_units, no_extremes
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.terms import Row, SliceTerms, SourceSums
from abeval.aggregates.unit_values import no_values, unit_values
from abeval.aggregates.wanted import Wanted
from abeval.engines.protocol import Engine
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
    extremes: pd.DataFrame
    values: pd.DataFrame
    unit_aucs: pd.DataFrame


class _OfSource(NamedTuple):
    """The same of one source, in the order in which it is read; None for what is not taken."""

    sums: SourceSums
    unit_aucs: pd.DataFrame | None
    extremes: pd.DataFrame | None
    values: pd.DataFrame
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
    further = [UNIT_DAY] if besides.before or _left_out(queries, wanted) else []
    for source in dict.fromkeys([*wanted.sources, *further]):
        if source.per_unit:
            step(source.title)
            parts.append(_of_source(queries, wanted, source, besides))
    return _together(parts)


def _of_source(
    queries: MetricQueries, wanted: Wanted, source: Source, besides: Besides
) -> _OfSource:
    chosen, resampled = (_of(source, metrics) for metrics in (wanted.metrics, wanted.resampled))
    more = [*balance_slices(queries, besides.before), *_left_out(queries, wanted)]
    return _OfSource(
        sums=queries.of_source(source, chosen, resampled, more if source is UNIT_DAY else ()),
        unit_aucs=_unit_aucs(queries.engine) if source is GAUC else None,
        extremes=extreme_units(queries, chosen) if besides.extremes else None,
        values=unit_values(queries, chosen),
        buckets={m.name: queries.bucket_sums(m, besides.by_units) for m in chosen}
        if besides.buckets
        else {},
    )


def _left_out(queries: MetricQueries, wanted: Wanted) -> list[SliceTerms]:
    """Impressions that the definitions of quantiles leave out."""
    return [part for metric in wanted.quantiles for part in queries.left_out(metric)]


def _of(source: Source, metrics: Sequence[Metric]) -> list[Metric]:
    return [metric for metric in metrics if metric.source == source]


def _unit_aucs(engine: Engine) -> pd.DataFrame:
    """How many units have which AUC of their own, while `source_unit` has it."""
    engine.view("gauc_unit", "select * from source_unit")
    return engine.frame(query("metric/unit_aucs"))


def _together(parts: Sequence[_OfSource]) -> PerUnitSums:
    aucs = [part.unit_aucs for part in parts if part.unit_aucs is not None]
    extremes = [part.extremes for part in parts if part.extremes is not None]
    return PerUnitSums(
        rows=[row for part in parts for row in part.sums.rows],
        caps={metric: caps for part in parts for metric, caps in part.sums.caps.items()},
        buckets={metric: sums for part in parts for metric, sums in part.buckets.items()},
        extremes=pd.concat([no_extremes(), *extremes], ignore_index=True),
        values=pd.concat([part.values for part in parts if len(part.values)] or [no_values()]),
        unit_aucs=aucs[-1] if aucs else pd.DataFrame(),
    )
