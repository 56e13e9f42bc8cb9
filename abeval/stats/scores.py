"""Score intervals of two proportions: the null values that a score test does not reject.

`stats/proportions.py` hands over the counts, for the intervals of Miettinen and Nurminen.
"""

import math
from collections.abc import Callable

from abeval.stats.records import Interval

# Nearer to a value where the restricted variance vanishes a root would be that value itself.
_APART = 1e-12


def difference_interval(x_c: int, n_c: int, x_t: int, n_t: int, q: float) -> Interval:
    """Differences Δ with |p̂t − p̂c − Δ| ≤ q·σ̃(Δ), σ̃ at the likeliest rates Δ apart.

    Mee (1984); Miettinen and Nurminen (1985) when `q` carries their factor √(N/(N − 1)).

    Example:
        >>> low, high = difference_interval(100, 1000, 130, 1000, 1.959964)
        >>> round(low, 4), round(high, 4)
        (0.002, 0.0582)
    """
    if 2 * (x_c + x_t) > n_c + n_t:
        # Rates near one lose the digits that rates near zero keep: count failures instead.
        failed = difference_interval(n_c - x_c, n_c, n_t - x_t, n_t, q)
        return Interval(-failed.high, -failed.low)
    difference = x_t / n_t - x_c / n_c

    def excess(sign: int) -> Callable[[float], float]:
        return lambda at: (
            sign * (difference - at) + q * math.sqrt(_variance(x_c, n_c, x_t, n_t, at))
        )

    low, high = -1.0, 1.0
    if difference > -1:
        low = _root(excess(-1), -1.0, difference - _APART)
    if difference < 1:
        high = _root(excess(1), difference + _APART, 1.0)
    return Interval(low, high)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    if function(low) * function(high) > 0:
        # Only rounding at the edge of the parameter space: the edge is the root.
        return low if abs(function(low)) < abs(function(high)) else high
    return float(brentq(function, low, high, xtol=1e-15, rtol=1e-14))


def _variance(x_c: int, n_c: int, x_t: int, n_t: int, difference: float) -> float:
    """Variance of the difference at the likeliest rates with this difference."""
    p = _restricted(x_c, n_c, x_t, n_t, difference)
    t = min(max(p + difference, 0.0), 1.0)
    return p * (1 - p) / n_c + t * (1 - t) / n_t


def _restricted(x_c: int, n_c: int, x_t: int, n_t: int, difference: float) -> float:
    """Likeliest rate of the control when the treatment's is `difference` higher.

    The root of a cubic in the range of the rates, in Cardano's trigonometric form. Its
    linear term is (n_c Δ − n − 2x_c) Δ + x; statsmodels (0.15) has x_c Δ there, and intervals
    that differ from those published by Newcombe (1998, table II).
    """
    n, d = n_c + n_t, difference
    a3, a2 = float(n), (n + n_c) * d - n - (x_c + x_t)
    a1, a0 = (n_c * d - n - 2 * x_c) * d + x_c + x_t, x_c * d * (1 - d)
    centre = a2 / (3 * a3)
    q = centre**3 - a1 * a2 / (6 * a3 * a3) + a0 / (2 * a3)
    p = math.copysign(math.sqrt(max(centre * centre - a1 / (3 * a3), 0.0)), q)
    angle = 0.0 if p == 0 else math.acos(min(max(q / p**3, -1.0), 1.0))
    rate = 2 * p * math.cos((math.pi + angle) / 3) - centre
    # Newton's method gives back the digits the arc cosine loses near a double root.
    for _ in range(8):
        slope = (3 * a3 * rate + 2 * a2) * rate + a1
        step = (((a3 * rate + a2) * rate + a1) * rate + a0) / slope if slope else math.inf
        rate -= step if abs(step) < 1e-6 else 0.0
    return min(max(rate, 0.0, -d), 1.0, 1 - d)
