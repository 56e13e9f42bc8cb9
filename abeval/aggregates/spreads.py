"""Which values of impressions get a whole distribution: dwell, and what quantile metrics are of.

`collect.py` reads the values with the metrics; `inference/spreads.py` compares the quantiles that
come back.
"""

from collections.abc import Sequence
from dataclasses import replace

from abeval.metrics.builtin import dwell_quantile
from abeval.metrics.definition import QUANTILE, Metric, RowTerm

COMPARED = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Levels at which variants are compared, with intervals."""

CURVE = (
    *(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    *(0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
)
"""Levels of a distribution's curve; those of `COMPARED` are among them."""

DWELL = "dwell of clicks"
"""What the distribution of dwell is called; other values are called by their expression."""

_CALLED = "the distribution of "
_DWELL = dwell_quantile(0.5)


def reads_rows(metric: Metric) -> bool:
    """Whether a metric needs impressions beyond their sums per unit and day."""
    return bool(metric.source.reads) or any(reads_rows(part) for part in metric.parts)


def spread_metrics(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """A quantile metric without a level of its own for each value whose distribution is wanted.

    These are the values of quantile metrics, and dwell where a metric reads it and another one
    reads rows: an analysis of sums alone reads no row for it. Of several roundings of one value
    it is the finest.

    Args:
        metrics: Of the scorecard.

    Example:
        >>> from abeval.metrics.builtin import builtin_metrics
        >>> known = builtin_metrics(30, 30)
        >>> [m.name for m in spread_metrics([known["dwell_per_user"], known["gauc"]])]
        ['the distribution of dwell of clicks']
        >>> spread_metrics([known["dwell_per_user"], known["ctr"]])
        ()
    """
    wanted = [metric for metric in metrics if metric.kind == "quantile"]
    if any("dwell" in m.needs for m in metrics) and any(map(reads_rows, metrics)):
        wanted.append(_DWELL)
    finest: dict[str, Metric] = {}
    for metric in sorted(wanted, key=lambda metric: value_of(metric)[1]):
        finest.setdefault(value_of(metric)[0], metric)
    return tuple(map(_spread, finest.values()))


def _spread(metric: Metric) -> Metric:
    name = DWELL if value_of(metric) == value_of(_DWELL) else value_of(metric)[0]
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


def title_of(spread: Metric) -> str:
    """What a distribution is of.

    Example:
        >>> title_of(spread_metrics([dwell_quantile(0.5)])[0])
        'dwell of clicks'
    """
    return spread.name.removeprefix(_CALLED)


def at_level(spread: Metric, level: float) -> Metric:
    """The quantile of a value at one level, as a metric of its own.

    Example:
        >>> at_level(spread_metrics([dwell_quantile(0.5)])[0], 0.9).name
        'the distribution of dwell of clicks at 0.9'
    """
    return replace(spread, name=f"{spread.name} at {level:g}", level=level)


def value_of(metric: Metric) -> tuple[str, float]:
    """What a quantile metric ranks, and the step to which that is rounded (0: whole numbers).

    The same expression, rounded otherwise, counts in other units.
    """
    if not isinstance(metric.value, RowTerm):
        return "", 0.0
    return metric.value.expression, metric.value.resolution or 0.0
