"""Decide from an effect: margins, and how wrong a significant result may be."""

import math
from typing import Literal, NamedTuple

from scipy.special import ndtr

from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Effect, Interval, Refusal

Direction = Literal["increase", "decrease"]


Gain = Interval
"""How much better the treatment is than control; negative is worse."""


def gain(interval: tuple[float, float], direction: Direction = "increase") -> Gain:
    """Return the gain from an interval of the difference or of the lift.

    Example:
        >>> gain((-0.02, 0.05), "decrease")
        Interval(low=-0.05, high=0.02)
    """
    low, high = interval
    return Gain(low, high) if direction == "increase" else Gain(-high, -low)


def conclusive(p_value: float, interval: tuple[float, float], alpha: float = 0.05) -> bool:
    """Decide whether a difference is proven: by its p-value and by its interval.

    An interval by another method, or a p-value adjusted for a family, may disagree near alpha.

    Example:
        >>> conclusive(0.01, (0.2, 1.4)), conclusive(0.04, (-0.1, 1.4))
        (True, False)
    """
    low, high = interval
    return p_value < alpha and not low <= 0 <= high


def not_worse(gain: Gain, margin: float) -> bool:
    """Decide non-inferiority: the whole interval lies above −margin.

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
    """Decide non-inferiority by a relative margin, also near a zero control.

    H0, of a metric to increase: μt ≤ (1 − δ)·μc, as a linear contrast (Sasabuchi 1988; Hauschke et
    al. 1999) at the level of the effect's own interval. A loss is taken over |μc|. If Fieller's
    interval of the lift has ends, it agrees with `not_worse` on them. `covariance` is the
    covariance of the difference and control's value: −`control_variance` for independent variants;
    `margin` the largest loss that is acceptable, as a fraction of control.

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
    # Var(d + δ·|c|) = se² + δ²·Var(c) + 2·δ·Cov(d, |c|).
    variance = effect.se**2 + margin**2 * control_variance + 2 * margin * sign * side * covariance
    harmful = effect.low if direction == "increase" else effect.high
    half = abs(harmful - effect.difference) / effect.se
    return distance > half * math.sqrt(max(variance, 0.0))


def equivalent(gain: Gain, margin: float) -> bool:
    """Decide equivalence: the whole interval lies within ± margin.

    Example:
        >>> equivalent(Gain(-0.004, 0.003), 0.005), equivalent(Gain(-0.004, 0.01), 0.005)
        (True, False)
    """
    return not_worse(gain, margin) and gain.high < margin


class Retrodesign(NamedTuple):
    """Errors of significant results at an assumed true effect.

    Attributes:
        type_s: Probability that a significant result has the wrong sign.
        exaggeration: Mean size of significant estimates over the true size (type M).
    """

    power: float
    type_s: float
    exaggeration: float


def type_s_m(true_effect: float, se: float, alpha: float = 0.05) -> Retrodesign:
    """Return power, type S and type M error of a z-test (Gelman and Carlin 2014).

    The true difference is assumed, from outside the experiment. Refusals: `zero_variance` when `se`
    is not positive, `not_finite`.

    Example:
        >>> r = type_s_m(0.02, 0.012)
        >>> round(r.power, 4), round(r.type_s, 6), round(r.exaggeration, 4)
        (0.3848, 0.000373, 1.596)
    """
    if not (math.isfinite(true_effect) and math.isfinite(se)):
        raise Refusal("not_finite", "the effect or its standard error is not finite")
    if se <= 0:
        raise Refusal("zero_variance", "the standard error must be positive")
    shift, critical = abs(true_effect) / se, two_sided_quantile(alpha)
    right, wrong = float(ndtr(shift - critical)), float(ndtr(-shift - critical))
    power = right + wrong
    if shift == 0:
        return Retrodesign(power, 0.5, math.inf)
    # E|Z|·1(|Z| > c) of Z ~ N(shift, 1), both tails of the truncated normal.
    tails = shift * (right - wrong) + _density(critical - shift) + _density(critical + shift)
    return Retrodesign(power, wrong / power, tails / power / shift)


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
