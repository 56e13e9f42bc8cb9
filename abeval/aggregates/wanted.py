"""What is summed of prepared logs: the metrics that they can give, and what else these need.

`collect.py` sums it; `time/open.py` refuses the same metrics.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.experiment.model import Experiment
from abeval.logs.prepare import Prepared
from abeval.metrics.definition import QUANTILE, Metric, Need, Source

_NO_ROWS = "the rows of the impressions (there are only sums per unit and day)"


class Wanted(NamedTuple):
    """What is summed.

    Attributes:
        metrics: Those of the scorecard that the logs can give.
        resampled: Those that are summed by sub-bucket too.
        spreads: Values whose distribution is wanted, as quantile metrics without a level.
        refused: Metric → what the logs lack for it.
    """

    metrics: tuple[Metric, ...]
    resampled: tuple[Metric, ...]
    spreads: tuple[Metric, ...]
    refused: Mapping[str, tuple[str, ...]]

    @property
    def sources(self) -> list[Source]:
        """Every source of their values once, in the order of the metrics."""
        return list(dict.fromkeys(metric.source for metric in (*self.metrics, *self.resampled)))

    @property
    def quantiles(self) -> list[Metric]:
        """The quantile metrics."""
        return [metric for metric in self.metrics if metric.source is QUANTILE]


def wanted_of(experiment: Experiment, metrics: Sequence[Metric], prepared: Prepared) -> Wanted:
    """What is summed of prepared logs for the metrics of a scorecard."""
    has, has_rows = prepared.shape.needs_met(experiment.unit), prepared.summed.has_rows
    refused = refusals(metrics, has)
    if not has_rows:
        refused |= {m.name: (_NO_ROWS,) for m in metrics if m.name not in refused and reads_rows(m)}
    chosen = tuple(metric for metric in metrics if metric.name not in refused)
    spreads = spread_metrics(metrics) if has_rows else ()
    return Wanted(
        metrics=chosen,
        resampled=_resampled(experiment, chosen),
        spreads=tuple(spread for spread in spreads if spread.needs <= has),
        refused=refused,
    )


def refusals(metrics: Sequence[Metric], has: frozenset[Need]) -> dict[str, tuple[str, ...]]:
    """Metrics that these logs cannot give → what the logs lack."""
    return {
        metric.name: tuple(sorted(metric.needs - has))
        for metric in metrics
        if not metric.needs <= has
    }


def _resampled(experiment: Experiment, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Metrics that need sums per sub-bucket.

    They are the parts of functions and, if the experiment resamples, every mean and ratio.
    """
    parts = {part.name: part for metric in metrics for part in metric.parts}
    if experiment.inference.resample is not None:
        parts |= {m.name: m for m in metrics if m.is_mean_or_ratio}
    return tuple(parts.values())
