"""Open an experiment's logs for windows and A/A replays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import BucketSums, deals_units
from abeval.aggregates.collect import unit_counts
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.per_unit import source_days, values_of
from abeval.aggregates.row_pass import KERNELS, RowSums, row_sums
from abeval.aggregates.source_values import rows_of, totals
from abeval.aggregates.wanted import refusals, wanted_of
from abeval.inference.aa import aa_replays
from abeval.logs.accounting import accounts, check_all_counted, check_some_left
from abeval.logs.names import sub_buckets
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.stretches import Stretches, entry_stretches
from abeval.logs.unit_arrays import UnitDays, Units, Whole
from abeval.metrics.definition import Metric, UnitTerm, scales
from abeval.metrics.sources import CATALOGUE, Source
from abeval.results.aa import AAResult


@dataclass(frozen=True)
class OpenLogs:
    """Logs whose cells are read, and the metrics that they can give.

    Attributes:
        queries: The metric queries, and what kernels computed of single impressions.
        prepared: What is known of the logs.
        metrics: Metrics for which the logs have every column.
        refused: Metric → why the logs cannot give it.
        stretches: Stretches of entry days of one split each; none where it did not change.
    """

    queries: MetricQueries
    prepared: Prepared
    metrics: tuple[Metric, ...]
    refused: Mapping[str, str]
    stretches: Stretches = ()


def open_logs(
    run: Run, metrics: Sequence[Metric], of_rows: Sequence[Metric], by_day: bool = False
) -> OpenLogs:
    """Read the logs.

    Args:
        run: The experiment and its engine.
        metrics: The metrics.
        of_rows: Those of them for which single impressions are read, if they need them.
        by_day: Whether windows are computed.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    prepared = prepare(run, metrics, by_arrays=KERNELS, units_read=False)
    check_some_left(run.experiment, prepared, run.engine)
    check_all_counted(prepared, accounts(prepared, run.engine))
    wanted = wanted_of(run.experiment, of_rows, prepared)._replace(spreads=())
    bucket = np.zeros(0, dtype=np.int16)
    if CATALOGUE in wanted.sources:
        bucket = sub_buckets(run.engine, run.experiment, prepared.placed.units.hash)
    return opened_logs(run, metrics, prepared, row_sums(run, prepared, wanted, bucket, by_day))


def opened_logs(
    run: Run, metrics: Sequence[Metric], prepared: Prepared, rows: RowSums | None
) -> OpenLogs:
    """The logs as they were prepared, of these metrics among others.

    Args:
        run: The experiment and its engine.
        metrics: The metrics.
        prepared: What is known of the logs.
        rows: What kernels computed of them.
    """
    experiment, engine = run.experiment, run.engine
    shape, placed = prepared.shape, prepared.placed
    lacks = refusals(metrics, shape.needs_met(experiment.unit))
    return OpenLogs(
        MetricQueries(
            *(experiment, shape, engine),
            by_stretch=bool(placed.stretches),
            covered=prepared.covered,
            rows=rows,
        ),
        prepared,
        tuple(metric for metric in metrics if metric.name not in lacks),
        {name: f"the logs lack {', '.join(columns)}" for name, columns in lacks.items()},
        entry_stretches(experiment, placed.entered),
    )


def by_source(metrics: Iterable[Metric]) -> dict[Source, list[Metric]]:
    """The metrics by what their values are computed from."""
    groups: dict[Source, list[Metric]] = {}
    for metric in metrics:
        groups.setdefault(metric.source, []).append(metric)
    return groups


class Panel(NamedTuple):
    """The analysed units, and the days (hours, weekdays) on which each is active.

    Attributes:
        units: The units.
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

    @property
    def variant(self) -> NDArray[np.int8]:
        """Place of the variant of each row."""
        return self.units.variant[self.unit]


class SourceSums(NamedTuple):
    """What units add up to in the columns of a source, by its name.

    Attributes:
        by_day: On each row of a `Panel`, 0 where the source knows nothing of the day.
        whole: Over the period, shape (units,).
        before: Before it, shape (units,).
    """

    by_day: Mapping[str, Whole]
    whole: Mapping[str, Whole]
    before: Mapping[str, Whole]


def source_sums(panel: Panel, days: UnitDays, first: int) -> SourceSums:
    """The sums of a source on the rows of a panel whose first day is this one."""
    rows = rows_of(days, panel.unit, panel.day + first)
    whole, before = (totals(days, part, len(panel.entry)) for part in (True, False))
    return SourceSums({n: np.append(days.columns[n], 0)[rows] for n in whole}, whole, before)


def columns_of(shape: LogShape, variants: Iterable[str], metrics: Sequence[Metric]) -> list[str]:
    """The columns of their source that metrics of one source read, each once."""
    terms = [t for metric in metrics for t in (metric.value, metric.per, *metric.covariates)]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    return list(dict.fromkeys(shape.component(t, v) for t in logged for v in variants))


def aa(
    run: Run, metrics: Sequence[Metric], runs: int, seed: int, logs: OpenLogs | None = None
) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs, which may be open already."""
    replayed = [metric for metric in metrics if metric.source.no_replays is None]
    logs = logs or open_logs(run, metrics, replayed)
    sums, refused, counts = collect_buckets(run, logs)
    run.step("replays")
    ordered = {m.name: sums[m.name] for m in metrics if m.name in sums}
    result = aa_replays(run.experiment, ordered, counts, runs, seed)
    return replace(result, refused={**refused, **result.refused})


def collect_buckets(
    run: Run, logs: OpenLogs
) -> tuple[dict[str, BucketSums], dict[str, str], Mapping[str, int]]:
    """Bucket sums of every metric, why others have none, and the units of each variant."""
    queries, prepared, refused = logs.queries, logs.prepared, dict(logs.refused)
    units = prepared.placed.units
    counts = {one.variant: one.units for one in unit_counts(run.experiment, units)}
    by_units = deals_units(sum(counts.values()))
    bucket = None if by_units else sub_buckets(run.engine, run.experiment, units.hash)
    active = prepared.days
    sums: dict[str, BucketSums] = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_replays is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_replays)
            continue
        run.step(f"sums per sub-bucket of {source}")
        days = source_days(queries, active, source, group)
        values = values_of(queries, units, days)
        sums |= {m.name: values.buckets(m, bucket).scaled(*scales(m)) for m in group}
    return sums, refused, counts
