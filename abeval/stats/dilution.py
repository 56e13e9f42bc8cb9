"""Dilute an effect among exposed units to the effect on all traffic.

Only some assigned units are exposed. The others, and what exposed units did before, do not change:
their totals stand on both sides. The lift of all traffic is the difference of totals over control's
total of all units. It is not the lift times the share of exposed units: those may be more active.

Sources: Deng & Hu (2015), Diluted treatment effect estimation for trigger analysis; Kohavi, Tang &
Xu (2020), chapter 20.
"""

import math
from typing import NamedTuple

import numpy as np

from abeval.stats.effects import orient_lift, solve_fieller
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Interval, Lift, Refusal


class Rest(NamedTuple):
    """Totals of the traffic without exposure, over the number of exposed units.

    Attributes:
        means: Of numerator and denominator, shape (2,).
        covariance: Of these two, shape (2, 2).
    """

    means: Floats
    covariance: Floats


def measure_rest(never: Moments, later: Moments, exposed: int) -> Rest:
    """Divide the totals of unexposed traffic by the number of exposed units.

    Which units are exposed is random, too: of each assigned unit, what it adds to the total minus
    the mean times its being exposed (the delta method of a ratio).

    Args:
        never: Moments of (y, x) over units that were never exposed.
        later: Moments of (y, x) before their exposure, over exposed units with rows from then.
        exposed: Number of exposed units.

    Raises:
        Refusal: `too_few_units` if no unit is exposed.

    Example:
        >>> rest = measure_rest(Moments.of([2, 4], [1, 1]), Moments.of([], []), 3)
        >>> rest.means.round(3).tolist(), round(float(rest.covariance[0, 0]), 3)
        ([2.0, 0.667], 3.556)
    """
    if not exposed:
        raise Refusal("too_few_units", "no unit is exposed")
    totals = [part.n * part.mean for part in (never, later)]
    means = (totals[0] + totals[1]) / exposed
    squares = sum(
        part.comoment + part.n * np.outer(part.mean, part.mean) for part in (never, later)
    )
    crossed = np.outer(totals[1], means)
    covariance = squares - crossed - crossed.T + exposed * np.outer(means, means)
    return Rest(means, np.asarray(covariance) / exposed**2)


def dilute_mean(
    effect: Effect, control: float, variance: float, covariance: float, rest: Rest
) -> Lift:
    """Compute the lift of all traffic from a difference of means.

    The interval is Fieller's, so that it excludes zero exactly when that of the difference does.

    Args:
        effect: The difference among exposed units, by any test.
        control: Control's mean.
        variance: Squared standard error of `control`.
        covariance: Covariance of the difference and `control`.
        rest: The other traffic, per exposed unit.

    Raises:
        Refusal: `control_near_zero` if the total may be zero.

    Example:
        >>> from abeval.stats.effects import effect_from_difference
        >>> rest = Rest(np.array([30.0, 0.0]), np.zeros((2, 2)))
        >>> lift = dilute_mean(effect_from_difference(10, 12, 2, 0.5), 10, 0.1, -0.1, rest)
        >>> round(lift.value, 3), round(lift.low, 3), round(lift.high, 3)
        (0.05, 0.025, 0.075)
    """
    total, of_total = control + float(rest.means[0]), variance + float(rest.covariance[0, 0])
    critical = (effect.high - effect.low) / 2 / effect.se if effect.se > 0 else 0.0
    g = critical * critical * of_total / total / total if total else math.inf
    if not g < 1:
        raise Refusal("control_near_zero", "the total of all traffic may be zero")
    value, w = effect.difference / total, critical * critical * covariance / total / total
    # The interval of the difference may have ends at two distances.
    halves = effect.difference - effect.low, effect.high - effect.difference
    below, above = halves if total > 0 else halves[::-1]
    low, high = (solve_fieller(value, (half / total) ** 2, w, g) for half in (below, above))
    return orient_lift(total, value, Interval(low.low, high.high), "diluted")


def dilute_ratio(
    lift: Lift, control: Moments, treatment: Moments, rest: Rest, critical: float
) -> Lift:
    """Add the error of the rest to the lift of a ratio of all traffic.

    `lift` is of `control` and `treatment`, moments of (y, x) shifted by the means of `rest`, which
    it takes to be known.

    Example:
        >>> control, treatment = Moments.of([4, 6], [40, 60]), Moments.of([7, 9], [40, 60])
        >>> rest = Rest(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 0.0]]))
        >>> wider = dilute_ratio(Lift(0.6, 0.5, 0.7, True, "fieller"), control, treatment, rest, 2)
        >>> wider.value, round(wider.low, 3), round(wider.high, 3)
        (0.6, 0.34, 0.86)
    """
    change = 1 / treatment.mean[:2] - 1 / control.mean[:2]
    slope = critical * (1 + lift.value) * change * np.array([1.0, -1.0])
    added = float(slope @ rest.covariance @ slope)
    below, above = (
        math.sqrt(half * half + added) for half in (lift.value - lift.low, lift.high - lift.value)
    )
    return lift._replace(low=lift.value - below, high=lift.value + above)
