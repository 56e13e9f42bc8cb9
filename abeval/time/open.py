"""Opens an experiment's logs for windows and A/A replays.

`time/analysis.py` and `time/aa.py` call it with a `Run`; `time/time_sums.py`, `time/clock.py` and
`time/cut.py` sum the `OpenLogs`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.row_pass import KERNELS, RowSums, row_sums
from abeval.aggregates.wanted import refusals, wanted_of
from abeval.logs.accounting import accounts, check_all_counted, check_some_left
from abeval.logs.placing import Stretches, entry_stretches
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.units import sub_buckets
from abeval.metrics.definition import CATALOGUE, Metric, Source


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
