"""The status of a scorecard row, from its effect and the direction of its metric.

Whether an effect is good or bad is decided here alone, for the scorecard and the family of goals.

`scorecard.py` calls it for each row, `families.py` for the p-values of goals.
"""

from abeval.inference.comparison import MIN_UNITS, Comparison
from abeval.metrics.definition import Direction, Margin, Metric
from abeval.results import Status
from abeval.stats import decisions, effects, margin_tests
from abeval.stats.records import Effect


def goodness(direction: Direction, effect: Effect) -> float:
    """How much better the variant is, in the metric's unit; negative is worse."""
    if direction.toward is None:
        return direction.sign * effect.difference
    target = direction.toward
    return abs(effect.control - target) - abs(effect.treatment - target)


def goodness_p_value(direction: Direction, effect: Effect) -> float:
    """Two-sided p-value of `goodness`.

    It is the effect's own, except where a target lies between control's value and the variant's.
    """
    gain = goodness(direction, effect)
    if direction.toward is None or abs(abs(gain) - abs(effect.difference)) < 1e-15:
        return effect.p_value
    if gain == 0:
        return 1.0
    return effects.from_difference(0.0, gain, gain, effect.se, effect.df).p_value


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
    effect = comparison.effect
    if effect is None or p_value is None:
        return "too_little_data"
    if min(comparison.units_control, comparison.units) < MIN_UNITS:
        return "too_little_data"
    gain = goodness(metric.direction, effect)
    proven = decisions.conclusive(p_value, (effect.low, effect.high), alpha)
    if metric.role == "guardrail":
        return _guardrail(metric, comparison, proven, gain)
    if proven and gain != 0:
        return "better" if gain > 0 else "worse"
    interval = _gain_interval(metric, comparison)
    if metric.margin is not None and interval is not None:
        return "equivalent" if decisions.equivalent(interval, metric.margin.size) else "unclear"
    return "unclear"


def _guardrail(metric: Metric, comparison: Comparison, proven: bool, gain: float) -> Status:
    """A guardrail holds only if the harmful end of its interval lies inside the margin.

    A proven gain is inside any margin.
    """
    if proven and gain != 0 and (gain > 0 or not _holds(metric, comparison)):
        return "better" if gain > 0 else "worse"
    return "non_inferior" if _holds(metric, comparison) else "unclear"


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
    if not margin.relative or effect.control == 0:
        return False
    direction: margin_tests.Direction = "increase" if metric.direction.sign > 0 else "decrease"
    return decisions.not_worse_relative(
        effect, spread.control, spread.covariance, margin.size, direction
    )


def _gain_interval(metric: Metric, comparison: Comparison) -> decisions.Gain | None:
    """How much better the variant is at worst and at best, on the margin's scale."""
    interval = _interval(metric.margin, comparison)
    if interval is None or comparison.effect is None or metric.margin is None:
        return None
    target, control = metric.direction.toward, comparison.effect.control
    if target is None:
        return decisions.gain(interval, "increase" if metric.direction.sign > 0 else "decrease")
    distance = (control - target) / (abs(control) if metric.margin.relative else 1.0)
    return decisions.gain_toward(interval, distance)


def _interval(margin: Margin | None, comparison: Comparison) -> tuple[float, float] | None:
    if margin is None or comparison.effect is None:
        return None
    if not margin.relative:
        return comparison.effect.low, comparison.effect.high
    lift = comparison.lift
    return (lift.low, lift.high) if lift is not None and lift.bounded else None
