"""What the goals and guardrails of a running experiment can see, now and after more days.

`study/run.py` calls it on collected aggregates and on the growth of units and spread by day.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.looks import Planned
from abeval.inference.outlook import POWER, Growth, Outlook, outlooks_of
from abeval.metrics.definition import Metric
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.stats.records import Refusal

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
    """The outlook of each goal and guardrail in each variant."""
    judging = [metric for metric in metrics if metric.role != "diagnostic"]
    outlooks = outlooks_of(experiment, judging, aggregates, growths, experiment.treatments)
    planned = _planned_days(experiment)
    return PowerOutlook(
        experiment.alpha,
        POWER,
        tuple(_metric(one, planned) for one in outlooks),
        planned_days=planned,
        next_look=_next_look(experiment, outlooks),
    )


def _planned_days(experiment: Experiment) -> float | None:
    if experiment.period is None:
        return None
    start, end = experiment.period.bounds
    return (end - start) / timedelta(days=1)


def _next_look(experiment: Experiment, outlooks: Sequence[Outlook]) -> str | None:
    """The next of the planned looks: its local day, or the units at which it is."""
    looks = outlooks[0].looks if outlooks else None
    if not isinstance(looks, Planned):
        return None
    share = next((one for one in outlooks[0].planned if one > looks.shares[-1]), None)
    if share is None:
        return None
    if experiment.inference.planned_units is not None:
        return f"{math.ceil(share * experiment.inference.planned_units):,} units"
    if experiment.period is None:
        return None
    start, end = experiment.period.bounds
    return str((start + share * (end - start)).date())


def _metric(one: Outlook, planned: float | None) -> MetricOutlook:
    name, variant = one.metric.name, one.variant
    days = None if one.growth is None else one.size
    try:
        mde = one.detectable(one.size)
    except Refusal as refusal:
        return MetricOutlook(name, days, None, (), None, None, refusal.reason, variant)
    target = one.margin or round_effect(_SMALLER * mde)
    size, units = _size_for(one, target)
    if days is None:
        return MetricOutlook(name, None, mde, (), target, None, "no_time", variant, units)
    points = tuple((size, seen) for size in _sizes(days, planned) if (seen := _seen(one, size)))
    return MetricOutlook(name, days, mde, points, target, size, None, variant, units)


def _size_for(one: Outlook, target: float) -> tuple[float | None, float | None]:
    """Days, or units, until an effect can be seen, and units then; None beyond what is planned."""
    try:
        size = one.size_for(target)
        return size, one.at(size).units
    except Refusal:
        return None, None


def _seen(one: Outlook, size: float) -> float | None:
    """The effect at a size; None where one day does not say how the log goes on."""
    try:
        return one.detectable(size)
    except Refusal:
        return None


def _sizes(days: float, planned: float | None) -> list[float]:
    """Whole days from the first to some times those of the log, with today and the planned end."""
    step = max(1, math.ceil(_AHEAD * days / _POINTS))
    ends = [] if planned is None else [planned]
    return sorted({*map(float, range(step, int(_AHEAD * days) + 1, step)), days, *ends})


def round_effect(effect: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is at most an effect.

    Example:
        >>> round_effect(0.072), round_effect(0.0199)
        (0.05, 0.01)
    """
    power = 10.0 ** math.floor(math.log10(effect))
    step = max(step for step in (1.0, 2.0, 5.0) if step * power <= effect * (1 + 1e-9))
    return float(f"{step * power:.6g}")
