"""From an effect to a status: good or bad is one function of direction and sign."""

from abeval.inference.comparison import MIN_UNITS, Comparison
from abeval.metrics.definition import Direction, Margin, Metric
from abeval.results import Status
from abeval.stats import effects
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
    # An interval by one method and a p-value by another may disagree near alpha: both must decide.
    decided = p_value < alpha and not effect.low <= 0 <= effect.high
    if metric.role == "guardrail":
        return _guardrail(metric, comparison, decided, gain)
    if decided and gain != 0:
        return "better" if gain > 0 else "worse"
    if (
        metric.margin is not None
        and _harm_inside(metric, comparison)
        and _gain_inside(metric, comparison)
    ):
        return "equivalent"
    return "unclear"


def _guardrail(metric: Metric, comparison: Comparison, decided: bool, gain: float) -> Status:
    """Passing is proven: the harmful end of the interval lies inside the margin."""
    if _harm_inside(metric, comparison):
        return "better" if decided and gain > 0 else "non_inferior"
    return "worse" if decided and gain < 0 else "unclear"


def _harm_inside(metric: Metric, comparison: Comparison) -> bool:
    low, margin = _ends(metric, comparison)[0], metric.margin
    return low is not None and margin is not None and low > -margin.size


def _gain_inside(metric: Metric, comparison: Comparison) -> bool:
    high, margin = _ends(metric, comparison)[1], metric.margin
    return high is not None and margin is not None and high < margin.size


def _ends(metric: Metric, comparison: Comparison) -> tuple[float | None, float | None]:
    """How much better the variant is at worst and at best, on the margin's scale."""
    low, high = _interval(metric.margin, comparison)
    if low is None or high is None or comparison.effect is None:
        return None, None
    target, control = metric.direction.toward, comparison.effect.control
    if target is None:
        return (low, high) if metric.direction.sign > 0 else (-high, -low)
    relative = metric.margin is not None and metric.margin.relative
    away = (control - target) / (abs(control) if relative else 1.0)
    gains = [abs(away) - abs(away + end) for end in (low, high)]
    reached = low <= -away <= high
    return min(gains), abs(away) if reached else max(gains)


def _interval(margin: Margin | None, comparison: Comparison) -> tuple[float | None, float | None]:
    if margin is None or comparison.effect is None:
        return None, None
    if not margin.relative:
        return comparison.effect.low, comparison.effect.high
    lift = comparison.lift
    return (lift.low, lift.high) if lift is not None and lift.bounded else (None, None)
