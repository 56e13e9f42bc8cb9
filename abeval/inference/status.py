"""The status of a scorecard row, from its effect and the direction of its metric.

Whether an effect is good or bad is decided here alone, for the scorecard and the family of goals.

`scorecard.py` calls it for each row, `families.py` for the p-values of goals.
"""

from abeval.inference.comparison import MIN_UNITS, Comparison
from abeval.metrics.definition import Direction, Margin, Metric
from abeval.results import Status
from abeval.stats import decisions

HELD: frozenset[Status] = frozenset({"better", "non_inferior", "equivalent"})
"""Statuses of a guardrail that holds: equivalence within a margin implies non-inferiority."""


def goodness(direction: Direction, comparison: Comparison) -> float | None:
    """How much better the variant is, in the metric's unit; negative is worse.

    Of a metric with a target it is how much nearer to it the variant is.
    """
    if comparison.effect is None:
        return None
    if direction.toward is None:
        return direction.sign * comparison.effect.difference
    return None if comparison.gain is None else comparison.gain.value


def goodness_p_value(direction: Direction, comparison: Comparison) -> float | None:
    """Two-sided p-value of `goodness`: the effect's own, or that of the gain toward a target."""
    if direction.toward is None or comparison.effect is None:
        return None if comparison.effect is None else comparison.effect.p_value
    return None if comparison.gain is None else comparison.gain.p_value


def goodness_interval(direction: Direction, comparison: Comparison) -> tuple[float, float] | None:
    """The interval that has to exclude zero: of the difference, or of the gain toward a target."""
    judged = comparison.effect if direction.toward is None else comparison.gain
    return None if judged is None else (judged.low, judged.high)


def status_of(
    metric: Metric, comparison: Comparison, p_value: float | None, alpha: float
) -> Status:
    """The status of a scorecard row, before trust checks overrule it.

    Args:
        metric: Its direction, role and margin.
        comparison: The effect.
        p_value: Of a goal or a guardrail, the p-value after the correction for multiple tests; else
            that of `goodness`.
        alpha: The level of the experiment.
    """
    gain = goodness(metric.direction, comparison)
    ends = goodness_interval(metric.direction, comparison)
    few = min(comparison.units_control, comparison.units) < MIN_UNITS
    if few or p_value is None or gain is None or ends is None:
        return "too_little_data"
    proven = decisions.conclusive(p_value, ends, alpha)
    if proven and gain > 0:
        return "better"
    if metric.role == "guardrail":
        return _guardrail(metric, comparison, proven, gain)
    if proven and gain < 0:
        return "worse"
    interval = _gain_interval(metric, comparison)
    if metric.margin is not None and interval is not None:
        return "equivalent" if decisions.equivalent(interval, metric.margin.size) else "unclear"
    return "unclear"


def _guardrail(metric: Metric, comparison: Comparison, proven: bool, gain: float) -> Status:
    """A guardrail holds only if the harmful end of its interval lies inside the margin.

    A proven gain is inside any margin: it does not come here.
    """
    if _holds(metric, comparison):
        return "non_inferior"
    return "worse" if proven and gain < 0 else "unclear"


def _holds(metric: Metric, comparison: Comparison) -> bool:
    if metric.margin is None:
        return False
    interval = _gain_interval(metric, comparison)
    if interval is not None:
        return decisions.not_worse(interval, metric.margin.size)
    return _holds_without_lift(metric, metric.margin, comparison)


def _holds_without_lift(metric: Metric, margin: Margin, comparison: Comparison) -> bool:
    """A share of control as margin, where control is so near zero that the lift has no interval."""
    effect, spread = comparison.effect, comparison.spread
    if effect is None or spread is None or metric.direction.toward is not None:
        return False
    if effect.control == 0:
        return False
    return decisions.not_worse_relative(
        effect, spread.control, spread.covariance, margin.size, _way(metric.direction)
    )


def _gain_interval(metric: Metric, comparison: Comparison) -> decisions.Gain | None:
    """How much better the variant is at worst and at best, on the margin's scale."""
    if metric.direction.toward is not None:
        return None if comparison.gain is None else comparison.gain.within
    interval = _interval(metric.margin, comparison)
    if interval is None:
        return None
    return decisions.gain(interval, _way(metric.direction))


def _way(direction: Direction) -> decisions.Direction:
    return "increase" if direction.sign == 1 else "decrease"


def _interval(margin: Margin | None, comparison: Comparison) -> tuple[float, float] | None:
    if margin is None or comparison.effect is None:
        return None
    if not margin.relative:
        return comparison.effect.low, comparison.effect.high
    lift = comparison.lift
    return (lift.low, lift.high) if lift is not None and lift.bounded else None
