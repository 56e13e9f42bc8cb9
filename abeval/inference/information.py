"""How much each day of the log has told about an effect, for looks at several times.

Planned looks correlate as the square roots of their information do, and traffic that is ramped up
brings little of it at first, whatever share of the days has passed. `compare.py` hands the days to
`looks.py`.
"""

from collections.abc import Sequence

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import DAY, pooled
from abeval.inference.comparison import Arms
from abeval.inference.means_and_ratios import estimate
from abeval.metrics.definition import Metric, scales
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def by_day(
    metric: Metric, metrics: Sequence[Metric], aggregates: Aggregates, arms: Arms
) -> dict[str, float]:
    """Information on a metric's effect up to the end of each day, in any unit.

    It counts a unit's days as if they were independent: that is never less new information than
    they bring, so that looks are held to correlate no more than they do, and bounds stay on the
    safe side. A metric that is no sum over days takes the days of units of one that is.
    """
    if aggregates.cells(metric.name, DAY) and metric.is_mean_or_ratio:
        return _gathered(metric, aggregates, arms)
    for other in metrics:
        if aggregates.cells(other.name, DAY):
            return _gathered(None, aggregates, arms, other)
    return {}


def _gathered(
    metric: Metric | None, aggregates: Aggregates, arms: Arms, counted: Metric | None = None
) -> dict[str, float]:
    """By the variance of a metric; without one, by the days of units of another."""
    source = metric or counted
    if source is None:
        return {}
    control: list[Moments] = []
    treatment: list[Moments] = []
    gathered: dict[str, float] = {}
    for day in aggregates.cells(source.name, DAY):
        moments = pooled(aggregates.of(source.name, DAY, day, scales(source)))
        control += [moments[arms.control]] if arms.control in moments else []
        treatment += [moments[arms.treatment]] if arms.treatment in moments else []
        gathered[day] = _information(metric, control, treatment)
        control, treatment = _whole(control), _whole(treatment)
    return gathered


def _whole(parts: Sequence[Moments]) -> list[Moments]:
    return [sum(parts[1:], parts[0])] if parts else []


def _information(
    metric: Metric | None, control: Sequence[Moments], treatment: Sequence[Moments]
) -> float:
    arms = [*_whole(control), *_whole(treatment)]
    if len(arms) < 2:
        return 0.0
    if metric is None:
        return 1 / sum(1 / arm.n for arm in arms)
    try:
        values = [estimate(metric, arm) for arm in arms]
    except Refusal:
        return 0.0
    variance = sum(value.variance for value in values)
    units = sum(value.units for value in values)
    # A total per unit grows while units return; its mean is the scale of its information.
    pooled = sum(value.units * value.value for value in values) / units
    scale = pooled if metric.kind == "mean" else 1.0
    return scale**2 / variance if variance > 0 else 0.0
