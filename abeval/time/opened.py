"""Opens an experiment's logs for the analyses over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeval.aggregates.collect import refusals, scored_view
from abeval.aggregates.metric_queries import MetricQueries
from abeval.logs.accounting import check_some_left
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric
from abeval.metrics.sources import Source


@dataclass(frozen=True)
class Opened:
    """Logs with their views written, and the metrics that they can give.

    Attributes:
        run: The metric queries.
        shape: What the logs have.
        metrics: Those that can be had.
        refused: Metric → what the logs lack for it.
    """

    run: MetricQueries
    shape: LogShape
    metrics: tuple[Metric, ...]
    refused: Mapping[str, tuple[str, ...]]

    def by_source(self) -> dict[Source, list[Metric]]:
        """The metrics, grouped by the query that their values come from."""
        found: dict[Source, list[Metric]] = {}
        for metric in self.metrics:
            found.setdefault(metric.source, []).append(metric)
        return found


def open_metrics(run: Run, metrics: Sequence[Metric]) -> Opened:
    """Read the logs up to the tables `unit_day` and `units`.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    experiment, engine = run.experiment, run.engine
    prepared = prepare(run, metrics)
    check_some_left(experiment, prepared, engine)
    shape = prepared.shape
    refused = refusals(metrics, shape.needs_met(experiment.unit))
    wanted = tuple(metric for metric in metrics if metric.name not in refused)
    if any(metric.source.scored for metric in wanted):
        engine.view("scored", scored_view(shape))
    return Opened(MetricQueries(experiment, shape, engine), shape, wanted, refused)
