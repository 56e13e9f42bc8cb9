"""Fisher's exact test of a 2×2 table with its mid-p, and intervals that agree with it.

The test and the interval of the odds ratio condition on how many units succeed in all. The table
at hand counts half (Lancaster 1961): all of it rejects far too seldom where few succeed.

Counts come from `stats/proportions.py`, whose `exact` and `exact_lift` an analysis uses for rare
successes.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy

from abeval.stats.distributions import Tail, brentq, check_alpha
from abeval.stats.records import Floats, Interval

_HALF = math.log(2)
_ANGLES = np.linspace(0, np.pi / 2, 65)
Measure = Callable[[float, float], float]
"""An effect as a function of control's and treatment's share."""


def fisher(x_c: int, n_c: int, x_t: int, n_t: int) -> Tail:
    """Two-sided mid-p of the exact test: twice the smaller tail, at most 1 (Lancaster 1961).

    Example:
        >>> round(fisher(3, 40, 11, 41).p_value, 6)
        0.02469
    """
    _, log_weights, place = _table(x_c, n_c, x_t, n_t)
    lower, upper = log_weights[: place + 1].copy(), log_weights[place:].copy()
    lower[-1] -= _HALF
    upper[0] -= _HALF
    log = min(0.0, _HALF + min(_log_sum(lower), _log_sum(upper)) - _log_sum(log_weights))
    return Tail(math.exp(log), log / math.log(10))


@lru_cache(maxsize=256)
def odds_ratio(x_c: int, n_c: int, x_t: int, n_t: int, alpha: float = 0.05) -> Interval:
    """Odds ratios, treatment over control, that `fisher` does not reject (Cornfield 1956).

    Example:
        >>> low, high = odds_ratio(3, 40, 11, 41)
        >>> round(low, 4), round(high, 4)
        (1.1916, 21.4105)
    """
    check_alpha(alpha)
    counts, log_weights, place = _table(x_c, n_c, x_t, n_t)
    limit = math.log(alpha / 2)

    def excess(log_odds: float, tail: slice) -> float:
        tilted = log_weights + log_odds * counts
        whole = _log_sum(tilted)
        tilted[place] -= _HALF
        return _log_sum(tilted[tail]) - whole - limit

    low, high = 0.0, math.inf
    if place > 0:
        low = math.exp(_root(lambda at: excess(at, slice(place, None))))
    if place < len(counts) - 1:
        high = math.exp(-_root(lambda at: excess(-at, slice(place + 1))))
    return Interval(low, high)


def exact_interval(
    x_c: int, n_c: int, x_t: int, n_t: int, measure: Measure, alpha: float = 0.05
) -> Interval:
    """Interval of a difference or lift that excludes zero exactly where the test rejects.

    The ends of the odds ratio are turned into shares with the observed number of successes. That
    number has an error of its own (Clopper and Pearson 1934). The two errors are independent, so
    an end is the most extreme effect on an ellipse around the estimate, with them as its axes.

    Args:
        x_c: Successes in control; at least one unit of the two variants succeeds and one fails.
        n_c: Units in control.
        x_t: Successes in treatment.
        n_t: Units in treatment.
        measure: The effect, zero where the shares are equal.
        alpha: Error rate.

    Example:
        >>> low, high = exact_interval(20, 1000, 0, 1000, lambda c, t: t / c - 1)
        >>> round(low, 4), round(high, 4)
        (-1.0, -0.8387)
    """
    total, units = x_c + x_t, n_c + n_t
    totals = (total, *(units * end for end in clopper_pearson(total, units, alpha)))
    low, high = (
        [measure(*_shares(odds, successes, n_c, n_t)) for successes in totals]
        for odds in odds_ratio(x_c, n_c, x_t, n_t, alpha)
    )
    estimate = measure(x_c / n_c, x_t / n_t)
    return Interval(-_highest([-e for e in low], -estimate), _highest(high, estimate))


def clopper_pearson(successes: int, units: int, alpha: float = 0.05) -> Interval:
    """Exact interval of one share (Clopper and Pearson 1934).

    Example:
        >>> low, high = clopper_pearson(0, 100)
        >>> round(low, 4), round(high, 4)
        (0.0, 0.0362)
    """
    x, n = successes, units
    low = 0.0 if x == 0 else float(scipy.special.betaincinv(x, n - x + 1, alpha / 2))
    return Interval(
        low, 1.0 if x == n else float(scipy.special.betainccinv(x + 1, n - x, alpha / 2))
    )


def _table(x_c: int, n_c: int, x_t: int, n_t: int) -> tuple[Floats, Floats, int]:
    """Possible successes of the treatment, their log weights, and the place of the observed."""
    total = x_c + x_t
    counts = np.arange(max(0, total - n_c), min(total, n_t) + 1, dtype=np.float64)
    before = counts[:-1]
    rising = (n_t - before) * (total - before)
    falling = (before + 1) * (n_c - total + before + 1)
    log_weights = np.concatenate([[0.0], np.cumsum(np.log(rising / falling))])
    return counts, log_weights, x_t - int(counts[0])


def _log_sum(log_weights: Floats) -> float:
    largest = log_weights.max()
    return float(largest + math.log(np.exp(log_weights - largest).sum()))


def _root(rising: Callable[[float], float]) -> float:
    low, high = -1.0, 1.0
    while rising(low) > 0:
        low *= 2
    while rising(high) < 0:
        high *= 2
    return brentq(rising, low, high, xtol=1e-12, rtol=1e-12)


def _shares(odds: float, successes: float, n_c: int, n_t: int) -> tuple[float, float]:
    """Control's and treatment's share with this odds ratio and so many successes in all."""
    if odds == 0:
        control = min(1.0, successes / n_c)
        return control, max(0.0, successes - n_c * control) / n_t
    if math.isinf(odds):
        treatment = min(1.0, successes / n_t)
        return max(0.0, successes - n_t * treatment) / n_c, treatment
    a = n_c * (odds - 1)
    b = n_c + n_t * odds - successes * (odds - 1)
    control = min(1.0, 2 * successes / (b + math.sqrt(max(b * b + 4 * a * successes, 0.0))))
    return control, control * odds / (1 + control * (odds - 1))


def _highest(ends: list[float], estimate: float) -> float:
    """The highest effect on the ellipse: at an end of the odds ratio, and with other totals."""
    end, *others = ends
    if end == 0 or math.isinf(end):
        return end
    ratios = [1.0, *(other / end for other in others)]
    factor = max(ratios) if end > 0 else min(ratios)
    effects = (estimate + np.cos(_ANGLES) * (end - estimate)) * factor ** np.sin(_ANGLES)
    return float(effects.max())
