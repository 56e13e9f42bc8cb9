"""Decide which aggregates the metrics need."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from abeval.experiment.metrics import define_covariate_means
from abeval.experiment.model import Experiment
from abeval.logs.prepare import Prepared
from abeval.metrics.builtin import build_dwell_quantile
from abeval.metrics.definition import QUANTILE, UNIT_DAY, Metric, Need, RowTerm, Source

COMPARED = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Levels at which variants are compared, with intervals."""

CURVE = (
    *(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    *(0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
)
"""Levels of a distribution's curve; those of `COMPARED` are among them."""

DWELL = "dwell of clicks"
"""Name of the distribution of dwell; others are named by their expression."""

_CALLED = "the distribution of "
_DWELL = build_dwell_quantile(0.5)


def reads_rows(metric: Metric) -> bool:
    """Tell whether a metric needs impressions beyond their sums per unit and day."""
    return bool(metric.source.reads) or any(reads_rows(part) for part in metric.parts)


def spread_metrics(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Make a quantile metric without a level for each distribution to show.

    These are the values of quantile metrics; and dwell where a metric reads it, unless no other
    metric needs row-level data. Of several roundings of one value it is the finest.

    Example:
        >>> from abeval.metrics.builtin import load_builtin_metrics
        >>> known = load_builtin_metrics(30, 30)
        >>> [m.name for m in spread_metrics([known["dwell_per_user"], known["gauc"]])]
        ['the distribution of dwell of clicks']
        >>> spread_metrics([known["dwell_per_user"], known["ctr"]])
        ()
    """
    ranked_metrics = [metric for metric in metrics if metric.kind == "quantile"]
    # An analysis of sums alone should not read every row for one more figure.
    if any("dwell" in m.needs for m in metrics) and any(map(reads_rows, metrics)):
        ranked_metrics.append(_DWELL)
    finest: dict[str, Metric] = {}
    for metric in sorted(ranked_metrics, key=lambda metric: read_quantile_expression(metric)[1]):
        finest.setdefault(read_quantile_expression(metric)[0], metric)
    return tuple(map(_spread, finest.values()))


def _spread(metric: Metric) -> Metric:
    name = (
        DWELL
        if read_quantile_expression(metric) == read_quantile_expression(_DWELL)
        else read_quantile_expression(metric)[0]
    )
    return Metric(
        f"{_CALLED}{name}",
        "quantile",
        f"distribution of {name}",
        unit=metric.unit,
        direction=metric.direction,
        source=QUANTILE,
        value=metric.value,
        needs=metric.needs,
    )


def spread_title(spread: Metric) -> str:
    """Return what a distribution is of.

    Example:
        >>> spread_title(spread_metrics([build_dwell_quantile(0.5)])[0])
        'dwell of clicks'
    """
    return spread.name.removeprefix(_CALLED)


def set_level(spread: Metric, level: float) -> Metric:
    """Make the quantile of a distribution at one level.

    Example:
        >>> set_level(spread_metrics([build_dwell_quantile(0.5)])[0], 0.9).name
        'the distribution of dwell of clicks at 0.9'
    """
    return replace(spread, name=f"{spread.name} at {level:g}", level=level)


def read_quantile_expression(metric: Metric) -> tuple[str, float]:
    """Return what a quantile metric ranks, and its step of rounding.

    A step of 0 stands for whole numbers.
    """
    value = cast(RowTerm, metric.value)
    # The same expression, rounded otherwise, counts in other units.
    return value.expression, value.resolution or 0.0


class MetricPlan(NamedTuple):
    """Plan what is summed.

    Attributes:
        metrics: Those of the scorecard that the logs can give.
        resampled: Those that are summed by sub-bucket too.
        refused: Metric → what the logs lack for it.
        balanced: Covariates of the table of units, which are balanced or not.
    """

    metrics: tuple[Metric, ...]
    resampled: tuple[Metric, ...]
    spreads: tuple[Metric, ...]
    refused: Mapping[str, tuple[str, ...]]
    balanced: Sequence[Metric]

    @property
    def sources(self) -> list[Source]:
        """Return every source of the values once, in the order of the metrics."""
        sources = [metric.source for metric in (*self.metrics, *self.resampled)]
        more = [UNIT_DAY] if self.balanced or self.counting_metrics else []
        return list(dict.fromkeys([*sources, *more]))

    @property
    def counting_metrics(self) -> list[Metric]:
        """List metrics without a value per unit that leave units out."""
        return [m for m in self.metrics if not m.source.per_unit and (m.left_out or m.lacking)]

    @property
    def quantiles(self) -> list[Metric]:
        """Return the quantile metrics."""
        return [metric for metric in self.metrics if metric.source is QUANTILE]


def plan_sums(experiment: Experiment, metrics: Sequence[Metric], prepared: Prepared) -> MetricPlan:
    """Plan what is summed of prepared logs for the metrics of a scorecard."""
    has = prepared.schema.needs_met(experiment.unit)
    refused = find_refusals(metrics, has)
    chosen = tuple(metric for metric in metrics if metric.name not in refused)
    # Parts of functions are summed by sub-bucket, and every mean and ratio if the file says so.
    resampled = {part.name: part for metric in chosen for part in metric.parts}
    if experiment.inference.resample is not None:
        resampled |= {m.name: m for m in chosen if m.is_mean_or_ratio}
    return MetricPlan(
        metrics=chosen,
        resampled=tuple(resampled.values()),
        spreads=tuple(spread for spread in spread_metrics(metrics) if spread.needs <= has),
        refused=refused,
        balanced=define_covariate_means(experiment),
    )


def find_refusals(metrics: Sequence[Metric], has: frozenset[Need]) -> dict[str, tuple[str, ...]]:
    """Return metrics that the logs cannot give → what the logs lack."""
    return {
        metric.name: tuple(sorted(metric.needs - has))
        for metric in metrics
        if not metric.needs <= has
    }
