"""Intervals of two variants with skewed values: the effects that their test does not reject.

`skewed.py` puts them into effects and lifts.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from abeval.stats.distributions import check_alpha, two_sided_quantile
from abeval.stats.records import Interval, Refusal
from abeval.stats.split_moments import Skewed, at, hall_inverse
from abeval.stats.type_three import tail

_ROUNDING = 1e-9
_FAR = math.log(1e4)
"""Of the ratio: an interval of a lift that holds it, or one over it, has no end there."""

_FLOOR = -400.0
"""Of the logarithm of a p-value that is compared with a level."""


@lru_cache(maxsize=256)
def ends(compared: Skewed, alpha: float) -> Interval:
    """The smallest and the largest effect that the test does not reject."""
    check_alpha(alpha)
    return _ends_of_ratio(compared, alpha) if compared.scaled else _ends_of_shift(compared, alpha)


def is_bounded(compared: Skewed, alpha: float = 0.05) -> bool:
    """Whether the interval has an upper end, which `effect`, `interval` and `lift` need.

    Example:
        >>> from abeval.stats.split_moments import Spread, Stratum
        >>> few, many = Spread(3, 54.0, 162.0), Spread(100, 25.0, 0.0)
        >>> is_bounded(Skewed(0.5, 3.0, (Stratum(1.0, many, few),), True))
        False
    """
    if not compared.scaled:
        return True
    return compared.control > 0 and at(compared, math.exp(_FAR)).lower[0] <= alpha / 2


def _ends_of_ratio(compared: Skewed, alpha: float) -> Interval:
    if not is_bounded(compared, alpha):
        raise Refusal("too_few_units", "the interval of the lift has no upper end")
    half = math.log10(alpha / 2)

    def above(log: float) -> float:
        return max(at(compared, math.exp(log)).upper[1], _FLOOR) - half

    def below(log: float) -> float:
        return max(at(compared, math.exp(log)).lower[1], _FLOOR) - half

    ratio = compared.treatment / compared.control
    if ratio > 0:
        start = min(max(math.log(ratio), -_FAR), _FAR)
        # Values that are never negative cannot fall by more than 100 %.
        low = math.exp(_root(above, -_FAR, start)) if above(-_FAR) < 0 < above(start) else 0.0
        return Interval(low, math.exp(_root(below, start, _FAR)))
    if below(0.0) > 0:
        return Interval(0.0, math.exp(_root(below, 0.0, _FAR)))
    return Interval(0.0, min(_most_without_any(compared, alpha), 1 - _ROUNDING))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    # Few analyses need it, and importing it costs all of them a quarter of a second.
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-12))


def _most_without_any(compared: Skewed, alpha: float) -> float:
    """The ratio from which on no unit of treatment having a value is as rare as half of alpha.

    At least E[y]² / E[y²] of the units have one, in control and times the ratio in treatment.
    """
    units = sum(s.treatment.units for s in compared.strata)
    square = sum(s.share * s.control.square / s.control.units for s in compared.strata)
    return -math.log(alpha / 2) * (1 + square / compared.control**2) / units


def _ends_of_shift(compared: Skewed, alpha: float) -> Interval:
    test, half = at(compared, 0.0), math.log10(alpha / 2)
    difference = compared.treatment - compared.control
    free = max(compared.units - 2 * len(compared.strata), 1)

    def critical(skew: float) -> float:
        z = 1.0
        while tail(z, skew)[1] > half:
            z *= 1.5
        return _root(lambda v: max(tail(v, skew)[1], _FLOOR) - half, 0.0, z)

    def half_width(skew: float) -> float:
        z = critical(skew)
        if z * z >= free + 1:
            raise Refusal("too_few_units", "the interval has no end")
        return test.se * z * math.sqrt(free / (free + 1 - z * z))

    skew, own, reach = test.skewness, test.own, two_sided_quantile(alpha)
    return Interval(
        min(difference - half_width(skew), difference - own.se * hall_inverse(reach, own.skewness)),
        max(
            difference + half_width(-skew), difference - own.se * hall_inverse(-reach, own.skewness)
        ),
    )


def difference_at(compared: Skewed, ratio: float, reach: float) -> float:
    """The end of the interval of the difference where that of the lift ends at a ratio.

    Control's value is uncertain too, and independent of the test of a ratio. Its error never
    carries the end past zero, so that the two intervals agree.

    Args:
        compared: The two variants.
        ratio: The end of the interval of the lift, plus 1.
        reach: How many standard errors of control's value are in reach; negative for the lower end.
    """
    base, error = baseline(compared, ratio)
    end = (ratio - 1) * base
    of_ratio = abs(compared.treatment / compared.control - ratio) * base
    of_base = abs(ratio - 1) * min(abs(reach) * error, 0.99 * base)
    return end + math.copysign(math.hypot(of_ratio, of_base) - of_ratio, reach)


def baseline(compared: Skewed, ratio: float) -> tuple[float, float]:
    """Control's value and its error, by both variants' units if treatment is so many times it."""
    variance = 0.0
    for share, control, treatment in compared.strata:
        square, units = control.square, control.units
        if ratio > 0:
            square += treatment.square / ratio**2
            units += treatment.units
        variance += share**2 * square / units / units
    if ratio == 0:
        return compared.control, math.sqrt(variance)
    of_treatment = sum(s.treatment.units for s in compared.strata) / compared.units
    value = (1 - of_treatment) * compared.control + of_treatment * compared.treatment / ratio
    return value, math.sqrt(variance)
