"""Opens an experiment's logs for windows and A/A replays.

`time/analysis.py` and `time/aa.py` call it with a `Run`; `time/time_sums.py`, `time/clock.py` and
`time/cut.py` query the `OpenLogs`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.row_pass import RowSums
from abeval.aggregates.wanted import refusals
from abeval.logs.accounting import accounts, check_all_counted, check_some_left
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.stretches import Stretches, entry_stretches
from abeval.metrics.definition import Metric
from abeval.metrics.sources import Source


@dataclass(frozen=True)
class OpenLogs:
    """Logs whose views are written, and the metrics that they can give.

    Attributes:
        queries: The metric queries.
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


def open_logs(run: Run, metrics: Sequence[Metric]) -> OpenLogs:
    """Read the logs up to the analysed units.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    prepared = prepare(run, metrics)
    check_some_left(run.experiment, prepared, run.engine)
    check_all_counted(prepared, accounts(prepared, run.engine))
    return opened_logs(run, metrics, prepared)


def opened_logs(
    run: Run, metrics: Sequence[Metric], prepared: Prepared, rows: RowSums | None = None
) -> OpenLogs:
    """The logs as they were prepared, of these metrics among others.

    Args:
        run: The experiment and its engine.
        metrics: The metrics.
        prepared: What is known of the logs.
        rows: What kernels computed of them already.
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
