"""Open an experiment's logs for windows and A/A replays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from abeval.aggregates.aggregates import BucketSums, deals_units
from abeval.aggregates.collect import unit_counts
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.row_pass import KERNELS, row_sums
from abeval.aggregates.wanted import refusals, wanted_of
from abeval.inference.aa import aa_replays
from abeval.logs.accounting import accounts, check_all_counted, check_some_left
from abeval.logs.placing import Stretches, entry_stretches
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.units import sub_buckets
from abeval.metrics.definition import CATALOGUE, Metric, Source, scales
from abeval.results.trust import AAResult


@dataclass(frozen=True)
class OpenLogs:
    """Logs that are read, and the metrics that they can give.

    Attributes:
        read: The logs.
        metrics: Metrics for which the logs have every column.
        refused: Metric → why the logs cannot give it.
        stretches: Stretches of entry days of one split each; none where it did not change.
    """

    read: ReadLogs
    metrics: tuple[Metric, ...]
    refused: Mapping[str, str]
    stretches: Stretches = ()

    @classmethod
    def of(cls, read: ReadLogs, metrics: Sequence[Metric]) -> "OpenLogs":
        """Open logs that were read for these metrics, among others."""
        experiment = read.experiment
        lacks = refusals(metrics, read.shape.needs_met(experiment.unit))
        return cls(
            read,
            tuple(metric for metric in metrics if metric.name not in lacks),
            {name: f"the logs lack {', '.join(columns)}" for name, columns in lacks.items()},
            entry_stretches(experiment, read.prepared.placed.entered),
        )


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
    rows = row_sums(run, prepared, wanted, bucket, by_day)
    return OpenLogs.of(ReadLogs(run, prepared, rows), metrics)


def by_source(metrics: Iterable[Metric]) -> dict[Source, list[Metric]]:
    """Group metrics by what their values are computed from."""
    groups: dict[Source, list[Metric]] = {}
    for metric in metrics:
        groups.setdefault(metric.source, []).append(metric)
    return groups


def aa(
    run: Run, metrics: Sequence[Metric], runs: int, seed: int, logs: OpenLogs | None = None
) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs, which may be open already."""
    replayed = [metric for metric in metrics if metric.source.no_replays is None]
    logs = logs or open_logs(run, metrics, replayed)
    units, refused = logs.read.units, dict(logs.refused)
    counts = {one.variant: one.units for one in unit_counts(run.experiment, units)}
    by_units = deals_units(sum(counts.values()))
    bucket = None if by_units else sub_buckets(run.engine, run.experiment, units.hash)
    sums: dict[str, BucketSums] = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_replays is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_replays)
            continue
        run.step(f"sums per sub-bucket of {source}")
        values = logs.read.values(logs.read.days(source, group))
        sums |= {m.name: values.buckets(m, bucket).scaled(*scales(m)) for m in group}
    run.step("replays")
    ordered = {m.name: sums[m.name] for m in metrics if m.name in sums}
    result = aa_replays(run.experiment, ordered, counts, runs, seed)
    return replace(result, refused={**refused, **result.refused})
