"""From an effect to a decision: superiority, non-inferiority, equivalence.

Passing is proven, never presumed from a difference that is not significant. Every claim is decided
by an interval, whatever method it comes from; at 1 − 2·alpha it is a one-sided test at alpha, or
two of them (Schuirmann 1987).
"""

import math
from typing import Literal, NamedTuple

from abeval.stats.records import Effect, Interval, Refusal

Direction = Literal["increase", "decrease"]


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

    H0, of a metric to increase: μt ≤ (1 − δ)·μc, as a linear contrast (Sasabuchi 1988; Hauschke et
    al. 1999) at the level of the effect's own interval. A loss is taken over |μc|. It agrees with
    `not_worse` on Fieller's interval of the lift where that has ends.

    Args:
        effect: With an interval at the level wanted, whatever its method.
        control_variance: Sampling variance of control's value.
        covariance: Of the difference and control's value; for independent variants, less
            `control_variance`.
        margin: Largest loss that is acceptable, as a fraction of control.
        direction: Which way is good.

    Raises:
        Refusal: `control_near_zero` for a control of exactly zero, which has no sign.
        ValueError: For a negative or infinite margin.

    Example:
        >>> from abeval.stats import effects
        >>> from abeval.stats.records import Estimate
        >>> effect = effects.compare(Estimate(0.02, 4e-4, 100, 99), Estimate(1.0, 4e-4, 100, 99))
        >>> not_worse_relative(effect, 4e-4, -4e-4, margin=0.01)
        True
    """
    if not 0 <= margin < math.inf:
        raise ValueError(f"a margin must not be negative, got {margin}")
    if effect.control == 0:
        raise Refusal("control_near_zero", "a relative margin of a control of zero has no sign")
    sign = 1 if direction == "increase" else -1
    side = math.copysign(1.0, effect.control)
    distance = sign * effect.difference + margin * abs(effect.control)
    variance = effect.se**2 + margin**2 * control_variance + 2 * margin * sign * side * covariance
    harmful = effect.low if direction == "increase" else effect.high
    half = abs(harmful - effect.difference) / effect.se
    return distance > half * math.sqrt(max(variance, 0.0))


def equivalent(gain: Gain, margin: float) -> bool:
    """Equivalence: the whole interval lies between a loss and a gain of the margin.

    Example:
        >>> equivalent(Gain(-0.004, 0.003), 0.005), equivalent(Gain(-0.004, 0.01), 0.005)
        (True, False)
    """
    return not_worse(gain, margin) and gain.high < margin
