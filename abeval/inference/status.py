"""From an effect to a status: good or bad is one function of direction and sign."""

from abeval.inference.comparison import MIN_UNITS, Comparison
from abeval.metrics.definition import Direction, Margin, Metric
from abeval.results import Status
from abeval.stats import decisions, effects
from abeval.stats.records import Effect


def goodness(direction: Direction, effect: Effect) -> float:
    """How much better the variant is, in the metric's unit; negative is worse."""
    if direction.toward is None:
        return direction.sign * effect.difference
    target = direction.toward
    return abs(effect.control - target) - abs(effect.treatment - target)


def goodness_p_value(direction: Direction, effect: Effect) -> float:
    """Two-sided p-value of `goodness`: the effect's own, but where the target lies between."""
    gain = goodness(direction, effect)
    if direction.toward is None or abs(abs(gain) - abs(effect.difference)) < 1e-15:
        return effect.p_value
    if gain == 0:
        return 1.0
    return effects.from_difference(0.0, gain, gain, effect.se, effect.df).p_value


def status_of(
    metric: Metric, comparison: Comparison, p_value: float | None, alpha: float
) -> Status:
    """The status of a row.

    Args:
        metric: Its direction, role and margin.
        comparison: The effect.
        p_value: What the conclusion follows: adjusted for goals, else the effect's own.
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
    ends = _gain(metric, comparison)
    if metric.margin is not None and ends is not None:
        return "equivalent" if decisions.equivalent(ends, metric.margin.size) else "unclear"
    return "unclear"


def _guardrail(metric: Metric, comparison: Comparison, proven: bool, gain: float) -> Status:
    """Passing is proven: the harmful end of the interval lies inside the margin."""
    ends = _gain(metric, comparison)
    if metric.margin and ends is not None and decisions.not_worse(ends, metric.margin.size):
        return "better" if proven and gain > 0 else "non_inferior"
    return "worse" if proven and gain < 0 else "unclear"


def _gain(metric: Metric, comparison: Comparison) -> decisions.Gain | None:
    """How much better the variant is at worst and at best, on the margin's scale."""
    ends = _interval(metric.margin, comparison)
    if ends is None or comparison.effect is None or metric.margin is None:
        return None
    target, control = metric.direction.toward, comparison.effect.control
    if target is None:
        return decisions.gain(ends, "increase" if metric.direction.sign > 0 else "decrease")
    distance = (control - target) / (abs(control) if metric.margin.relative else 1.0)
    return decisions.gain_toward(ends, distance)


def _interval(margin: Margin | None, comparison: Comparison) -> tuple[float, float] | None:
    if margin is None or comparison.effect is None:
        return None
    if not margin.relative:
        return comparison.effect.low, comparison.effect.high
    lift = comparison.lift
    return (lift.low, lift.high) if lift is not None and lift.bounded else None
