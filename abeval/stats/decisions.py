"""From an effect to a decision: superiority, non-inferiority, equivalence.

Passing is proven, never presumed from a difference that is not significant. `conclusive`,
`not_worse`, `not_worse_relative` and `equivalent` decide by an interval, whatever method it comes
from: they decide the status of every row of a result. The other functions test two estimates and
return p-values.

`inference/status.py` is the caller in an analysis; the other functions are for your own numbers.
"""

import math
from typing import NamedTuple

from abeval.stats.margin_tests import (
    Decision,
    Direction,
    Equivalence,
    check_margin,
    check_order,
    decide,
    margin_over,
    sign_of,
    within_margins,
)
from abeval.stats.records import Effect, Estimate, Interval, Refusal


class Gain(NamedTuple):
    """How much better the treatment is than the control; negative is worse.

    Attributes:
        low: Lower end of its interval.
        high: Upper end.
    """

    low: float
    high: float


def gain(interval: Interval | tuple[float, float], direction: Direction = "increase") -> Gain:
    """The gain from an interval of the difference or of the lift.

    Example:
        >>> gain((-0.02, 0.05), "decrease")
        Gain(low=-0.05, high=0.02)
    """
    low, high = interval
    return Gain(low, high) if direction == "increase" else Gain(-high, -low)


def conclusive(
    p_value: float, interval: Interval | tuple[float, float], alpha: float = 0.05
) -> bool:
    """Whether a difference is proven: by its p-value and by its interval.

    An interval by one method and a p-value by another, or one adjusted for a family, may
    disagree near alpha; then nothing is proven.

    Example:
        >>> conclusive(0.01, (0.2, 1.4)), conclusive(0.04, (-0.1, 1.4))
        (True, False)
    """
    low, high = interval
    return p_value < alpha and not low <= 0 <= high


def not_worse(gain: Gain, margin: float) -> bool:
    """Non-inferiority: the whole interval lies above the largest loss that is acceptable.

    Example:
        >>> not_worse(Gain(-0.004, 0.01), 0.005), not_worse(Gain(-0.006, 0.02), 0.005)
        (True, False)
    """
    return gain.low > -margin


def not_worse_relative(
    effect: Effect,
    control_variance: float,
    covariance: float,
    margin: float,
    direction: Direction = "increase",
) -> bool:
    """Non-inferiority by a share of control, also where control is not distinct from zero.

    The contrast of `non_inferiority_relative`, at the level of the effect's own interval. It agrees
    with `not_worse` on Fieller's interval of the lift where that has ends.

    Args:
        effect: With an interval at the level wanted, whatever its method.
        control_variance: Sampling variance of control's value.
        covariance: Of the difference and control's value; for independent variants, less
            `control_variance`.
        margin: Largest loss that is acceptable, as a fraction of control.
        direction: Which way is good.

    Raises:
        Refusal: `control_near_zero` for a control of exactly zero, which has no sign.

    Example:
        >>> from abeval.stats import effects
        >>> effect = effects.compare(Estimate(0.02, 4e-4, 100, 99), Estimate(1.0, 4e-4, 100, 99))
        >>> not_worse_relative(effect, 4e-4, -4e-4, margin=0.01)
        True
    """
    check_margin(margin)
    if effect.control == 0:
        raise Refusal("control_near_zero", "a relative margin of a control of zero has no sign")
    sign, side = sign_of(direction), math.copysign(1.0, effect.control)
    distance = sign * effect.difference + margin * abs(effect.control)
    variance = effect.se**2 + margin**2 * control_variance + 2 * margin * sign * side * covariance
    half = (effect.high - effect.difference) / effect.se
    return distance > half * math.sqrt(max(variance, 0.0))


def equivalent(gain: Gain, margin: float) -> bool:
    """Equivalence: the whole interval lies between a loss and a gain of the margin.

    Example:
        >>> equivalent(Gain(-0.004, 0.003), 0.005), equivalent(Gain(-0.004, 0.01), 0.005)
        (True, False)
    """
    return not_worse(gain, margin) and gain.high < margin


def superiority(
    control: Estimate,
    treatment: Estimate,
    alpha: float = 0.025,
    direction: Direction = "increase",
    df: float | None = None,
) -> Decision:
    """Whether the treatment is better than the control.

    Args:
        control: Estimate of the control.
        treatment: Independent estimate of the treatment.
        alpha: One-sided; .025 agrees with a two-sided test at .05.
        direction: Which way is good.
        df: Degrees of freedom; those of Satterthwaite when omitted.

    Raises:
        Refusal: `zero_variance`, `not_finite`.

    Example:
        >>> superiority(Estimate(10, 0.5, 100, 99), Estimate(13, 0.5, 100, 99)).passed
        True
    """
    return decide(control, treatment, 1.0, 0.0, sign_of(direction), alpha, df, "superiority", 0.0)


def non_inferiority(
    control: Estimate,
    treatment: Estimate,
    margin: float,
    alpha: float = 0.05,
    direction: Direction = "increase",
    df: float | None = None,
) -> Decision:
    """Whether the treatment is worse than the control by less than an absolute margin.

    Arguments and refusals as in `superiority`; `margin` is the largest loss that is acceptable, in
    the metric's unit.

    Raises:
        ValueError: For a negative margin.

    Example:
        >>> d = non_inferiority(Estimate(10, 0.02, 100, 99), Estimate(9.9, 0.02, 100, 99), 0.5)
        >>> d.passed, round(d.p_value, 4)
        (True, 0.0234)
    """
    check_margin(margin)
    sign = sign_of(direction)
    shift = sign * margin
    return decide(control, treatment, 1.0, shift, sign, alpha, df, "non_inferiority", margin)


def non_inferiority_relative(
    control: Estimate,
    treatment: Estimate,
    margin: float,
    alpha: float = 0.05,
    direction: Direction = "increase",
    df: float | None = None,
) -> Decision:
    """Whether the treatment loses less than a share of the control, without dividing by it.

    H0: μt ≤ (1 − δ)·μc, tested as a linear contrast (Sasabuchi 1988; Hauschke et al. 1999).
    It passes exactly when the one-sided Fieller bound of the lift is above −δ with the same
    quantile, and works where Fieller's interval is unbounded. A loss is taken over |μc|.

    Arguments as in `non_inferiority`; `margin` is a fraction of the control.

    Raises:
        Refusal: As there; `control_near_zero` for a control of exactly zero, which has no sign.
        ValueError: For a negative margin.

    Example:
        >>> control, treatment = Estimate(10, 0.02, 100, 99), Estimate(9.9, 0.02, 100, 99)
        >>> non_inferiority_relative(control, treatment, 0.05).passed
        True
    """
    check_margin(margin)
    sign = sign_of(direction)
    factor = 1 - sign * margin_over(control, margin)
    method = "non_inferiority_relative"
    return decide(control, treatment, factor, 0.0, sign, alpha, df, method, margin)


def equivalence(
    control: Estimate,
    treatment: Estimate,
    low: float,
    high: float,
    alpha: float = 0.05,
    df: float | None = None,
) -> Equivalence:
    """Whether the difference lies between two margins: TOST (Schuirmann 1987).

    Arguments and refusals as in `superiority`; `low` and `high` are the margins of the difference,
    in the metric's unit, and `alpha` is the error rate of each one-sided test.

    Raises:
        ValueError: When the margins are not in order.

    Example:
        >>> e = equivalence(Estimate(10, 0.02, 100, 99), Estimate(10.1, 0.02, 100, 99), -1, 1)
        >>> e.passed, round(e.low, 3), round(e.high, 3)
        (True, -0.231, 0.431)
    """
    check_order(low, high)
    above = decide(control, treatment, 1.0, -low, 1, alpha, df, "low", low)
    below = decide(control, treatment, 1.0, -high, -1, alpha, df, "high", high)
    return within_margins(control, treatment, above, below, alpha, "equivalence")


def equivalence_relative(
    control: Estimate,
    treatment: Estimate,
    low: float,
    high: float,
    alpha: float = 0.05,
    df: float | None = None,
) -> Equivalence:
    """Whether the lift lies between two margins, as fractions, without dividing.

    Arguments and refusals as in `equivalence`, and `control_near_zero` for a control of
    exactly zero.

    Example:
        >>> control, treatment = Estimate(10, 0.02, 100, 99), Estimate(10.1, 0.02, 100, 99)
        >>> equivalence_relative(control, treatment, -0.1, 0.1).passed
        True
    """
    check_order(low, high)
    floor, ceiling = (1 + margin_over(control, margin) for margin in (low, high))
    above = decide(control, treatment, floor, 0.0, 1, alpha, df, "low", low)
    below = decide(control, treatment, ceiling, 0.0, -1, alpha, df, "high", high)
    return within_margins(control, treatment, above, below, alpha, "equivalence_relative")
