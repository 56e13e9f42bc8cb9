"""Intervals of two variants with skewed values: the effects that their test does not reject.

`skewed.py` puts them into effects and lifts.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from abeval.stats.distributions import brentq, check_alpha
from abeval.stats.records import Interval, Refusal
from abeval.stats.split_moments import Skewed, at, standing

_ROUNDING = 1e-9
_FAR = math.log(1e4)
"""Of the ratio: an interval of a lift that holds it, or one over it, has no end there."""

_FLOOR = -400.0
"""Of the logarithm of a p-value that is compared with a level."""

_STEPS = tuple(3.0 * 2**k for k in range(12))
"""Standard errors from the difference at which its end is looked for."""


@lru_cache(maxsize=256)
def ends(compared: Skewed, alpha: float) -> Interval:
    """The smallest and the largest effect that the test does not reject; infinite without an end.

    Raises:
        Refusal: `too_few_units` where added values have no end, `zero_variance`.

    Example:
        >>> from abeval.stats.split_moments import Spread, Stratum
        >>> few, many = Spread(3, 54.0, 162.0), Spread(100, 25.0, 0.0)
        >>> ends(Skewed(0.5, 3.0, (Stratum(1.0, many, few),), True), 0.05).high
        inf
    """
    check_alpha(alpha)
    return _ends_of_ratio(compared, alpha) if compared.scaled else _ends_of_shift(compared, alpha)


def _ends_of_ratio(compared: Skewed, alpha: float) -> Interval:
    half = math.log10(alpha / 2)

    def above(log: float) -> float:
        return max(at(compared, math.exp(log)).upper[1], _FLOOR) - half

    def below(log: float) -> float:
        return max(at(compared, math.exp(log)).lower[1], _FLOOR) - half

    if compared.treatment == 0 and below(0.0) <= 0:
        return Interval(0.0, min(_most_without_any(compared, alpha), 1 - _ROUNDING))
    start, low = 0.0, 0.0
    if compared.treatment > 0:
        start = min(max(math.log(compared.treatment / compared.control), -_FAR), _FAR)
        # Values that are never negative cannot fall by more than 100 %.
        low = math.exp(_last(above, start, -_FAR)) if above(-_FAR) < 0 < above(start) else 0.0
    return Interval(low, math.exp(_last(below, start, _FAR)) if below(_FAR) <= 0 else math.inf)


def _last(excess: Callable[[float], float], inside: float, outside: float) -> float:
    """The effect that is just not rejected, on the side of no effect that the test of it says."""
    if min(inside, outside) < 0 < max(inside, outside):
        inside, outside = (0.0, outside) if excess(0.0) > 0 else (inside, 0.0)
    return brentq(excess, inside, outside, xtol=_ROUNDING * abs(outside - inside))


def _most_without_any(compared: Skewed, alpha: float) -> float:
    """The ratio from which on no unit of treatment having a value is as rare as half of alpha.

    At least E[y]² / E[y²] of the units have one, in control and times the ratio in treatment.
    """
    units = sum(s.treatment.units for s in compared.strata)
    square = sum(s.share * s.control.square / s.control.units for s in compared.strata)
    return -math.log(alpha / 2) * (1 + square / compared.control**2) / units


def _ends_of_shift(compared: Skewed, alpha: float) -> Interval:
    half, difference = math.log10(alpha / 2), compared.treatment - compared.control
    here = standing(compared, 0.0)
    step = max(here.se, here.own.se)

    def end(side: int) -> float:
        def excess(shift: float) -> float:
            test = at(compared, shift)
            return max((test.lower if side > 0 else test.upper)[1], _FLOOR) - half

        for times in _STEPS:
            if excess(difference + side * times * step) < 0:
                return _last(excess, difference, difference + side * times * step)
        raise Refusal("too_few_units", "the interval has no end")

    return Interval(end(-1), end(1))


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
