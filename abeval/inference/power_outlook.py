"""What the goals and guardrails of a running experiment can see, now and after more days.

`study/run.py` calls it on collected aggregates and on the growth of units and spread by day.
"""

import math
from collections.abc import Mapping, Sequence

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference import outlook
from abeval.inference.growth import Growth
from abeval.inference.outlook import MOST_DAYS, Outlook
from abeval.metrics.definition import Metric
from abeval.results.outlook import MetricOutlook, PowerOutlook
from abeval.stats import design
from abeval.stats.records import Refusal

POWER = 0.8

_AHEAD = 3.0
"""The curve of effects against days ends after so many times the days of the log."""

_SMALLER = 0.8
"""A target is at most this share of the effect that can be seen now."""

_POINTS = 12


def power_outlook(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    growths: Mapping[str, Growth],
) -> PowerOutlook:
    """The outlook of each mean and ratio among the metrics."""
    looked = outlook.outlooks_of(experiment, metrics, aggregates, growths)
    rows = tuple(_metric(experiment, one) for one in looked if one.metric.role != "diagnostic")
    return PowerOutlook(experiment.alpha, POWER, rows)


def _metric(experiment: Experiment, one: Outlook) -> MetricOutlook:
    name = one.metric.name
    days = float(one.days) if one.growth is not None else None
    try:
        mde = _seen(experiment, one, one.size_of(None))
    except Refusal as refusal:
        return MetricOutlook(name, days, None, (), None, None, refusal.reason)
    if days is None:
        return MetricOutlook(name, None, mde, (), None, None, "no_time")
    points = tuple((size, _seen(experiment, one, size)) for size in _sizes(days))
    target = round_effect(_SMALLER * mde)
    return MetricOutlook(name, days, mde, points, target, _days_to(experiment, one, target), None)


def _sizes(days: float) -> list[float]:
    """Whole days from the first to some times those of the log, with today among them."""
    step = max(1, math.ceil(_AHEAD * days / _POINTS))
    return sorted({*(float(day) for day in range(step, int(_AHEAD * days) + 1, step)), days})


def _seen(experiment: Experiment, one: Outlook, size: float) -> float:
    """The smallest relative effect that is seen at a size."""
    critical = outlook.critical(experiment, one, size, experiment.alpha)
    return one.effect_at(size, design.mde_from_se(1.0, experiment.alpha, POWER, critical))


def _days_to(experiment: Experiment, one: Outlook, target: float) -> float | None:
    """Days until an effect can be seen; None beyond a thousand."""
    low, high = float(one.days), MOST_DAYS
    try:
        if _seen(experiment, one, high) > target:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            if _seen(experiment, one, middle) > target:
                low = middle
            else:
                high = middle
    except Refusal:
        return None
    return high


def round_effect(effect: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is at most an effect.

    Example:
        >>> round_effect(0.072), round_effect(0.0199)
        (0.05, 0.01)
    """
    power = 10.0 ** math.floor(math.log10(effect))
    step = max(step for step in (1.0, 2.0, 5.0) if step * power <= effect * (1 + 1e-9))
    return float(f"{step * power:.6g}")
