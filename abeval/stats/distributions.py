"""Quantiles and tails of the normal, t and Pearson's type III distributions, and Brent's roots."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

# SciPy loads `scipy.special` where it is first used: one interval of many units needs none of it.
import scipy
from numpy.typing import ArrayLike

from abeval.stats.records import Floats

# Below this a double loses digits, so the logarithm is computed directly.
_SMALLEST_TRUSTED = 1e-290
# From here up the beta function of half the degrees of freedom is imprecise.
_NEARLY_NORMAL = 1e6
# From here up three terms of the expansion of Fisher and Cornish (1960) are exact to a double.
_EXPANDED = 1e5


class Tail(NamedTuple):
    """A p-value and its base-10 logarithm.

    Attributes:
        p_value: Zero if the true value is below about 1e-308.
        log10: Finite if the statistic is.
    """

    p_value: float
    log10: float


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless `alpha` is strictly between 0 and 1.

    Example:
        >>> check_alpha(0.05)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")


def quantile(probability: float, df: float = math.inf) -> float:
    """Return a quantile of the t distribution, or of the normal if `df` is infinite.

    Example:
        >>> round(quantile(0.975), 6), round(quantile(0.975, df=10), 6)
        (1.959964, 2.228139)
    """
    if math.isinf(df):
        return float(scipy.special.ndtri(probability))
    if df < _EXPANDED or not 0 < probability < 1:
        return float(scipy.special.stdtrit(df, probability))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / df**order for order, term in enumerate(terms, 1))


def two_sided_quantile(alpha: float, df: float = math.inf) -> float:
    """Return the half-width of a `1 - alpha` interval in standard errors.

    Computed in the lower tail, which stays precise for a tiny alpha.

    Example:
        >>> round(two_sided_quantile(0.05), 6)
        1.959964
    """
    check_alpha(alpha)
    return -quantile(alpha / 2, df)


def upper_tail(statistic: float, df: float = math.inf) -> Tail:
    """Return P(T > statistic), computed without subtracting from one.

    Example:
        >>> f"{upper_tail(35).p_value:.6e}"
        '1.124911e-268'
        >>> round(upper_tail(40).log10, 6)
        -349.437006
    """
    p_value = float(
        scipy.special.ndtr(-statistic) if math.isinf(df) else scipy.special.stdtr(df, -statistic)
    )
    if p_value > _SMALLEST_TRUSTED:
        return Tail(p_value, math.log10(p_value))
    log = (
        float(scipy.special.log_ndtr(-statistic)) if math.isinf(df) else _log_t_tail(statistic, df)
    )
    return Tail(p_value, log / math.log(10))


def tail(statistic: float, df: float = math.inf) -> Tail:
    """Return the two-sided p-value of a normal or t statistic.

    Args:
        statistic: Estimate over its standard error.
        df: Degrees of freedom; infinite for the normal.

    Example:
        >>> f"{tail(10).p_value:.6e}"
        '1.523971e-23'
    """
    one = upper_tail(abs(statistic), df)
    return Tail(2 * one.p_value, min(0.0, one.log10 + math.log10(2)))


def _log_t_tail(statistic: float, df: float) -> float:
    """Log of P(T > statistic) for a large statistic."""
    r = statistic / math.sqrt(df)
    log_one_plus = math.log1p(r * r) if r < 1 else 2 * math.log(math.hypot(1, r))
    if df > _NEARLY_NORMAL:
        # The normal deviate of Wallace (1959), in error by the order of 1/df².
        z = (1 - 2 / (8 * df + 3)) * math.sqrt(df * log_one_plus)
        return float(scipy.special.log_ndtr(-z))
    log_x, log_rest = -log_one_plus, 2 * math.log(r) - log_one_plus
    a = df / 2
    front = a * log_x + 0.5 * log_rest - math.log(2 * a) - float(scipy.special.betaln(a, 0.5))
    return front + math.log(_beta_fraction(a, 0.5, math.exp(log_x)))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return fraction


THIN = 0.5
"""The tail on the side where values end counts on no more skewness than this.

What rare large values add to the skewness does not make that tail any thinner
(`benchmarks.calibration.skew`).
"""

_NORMAL = 1e-5
"""Below this skewness the distribution is the normal."""


def skewed_tail(z: float, skew: float) -> Tail:
    """Return P(Z > z) of Pearson's type III with mean 0 and variance 1 (Mielke and Berry 2001).

    Example:
        >>> [round(skewed_tail(1.96, skew)[0], 4) for skew in (-0.3, 0.0, 0.3)]
        [0.0161, 0.025, 0.0326]
    """
    skew = max(skew, -THIN)
    if abs(skew) < _NORMAL:
        return upper_tail(z)
    shape = 4 / skew**2
    x = shape + z * math.sqrt(shape) * math.copysign(1, skew)
    if x <= 0:
        return Tail(1.0, 0.0) if skew > 0 else Tail(0.0, -math.inf)
    p = float(scipy.special.gammaincc(shape, x) if skew > 0 else scipy.special.gammainc(shape, x))
    if p > 1e-290:
        return Tail(p, math.log10(p))
    # The first term of either tail.
    log = (
        shape * math.log(x)
        - x
        - float(scipy.special.gammaln(shape))
        - math.log(x if skew > 0 else shape)
    )
    return Tail(p, log / math.log(10))


def skewed_p_values(z: ArrayLike, skew: ArrayLike) -> Floats:
    """Return two-sided p-values, twice the smaller tail, of arrays of one shape.

    Example:
        >>> skewed_p_values([1.96, -1.96], [0.3, 0.3]).round(4).tolist()
        [0.0651, 0.0322]
    """
    z, skew = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(skew, dtype=float))
    smaller = np.minimum(skewed_tails(z, skew), skewed_tails(-z, -skew))
    return np.asarray(np.minimum(1.0, 2 * smaller))


def skewed_tails(z: Floats, skew: Floats) -> Floats:
    """Return P(Z > z) as `tail` has it, of arrays of one shape.

    Example:
        >>> skewed_tails(np.array([1.96, 1.96]), np.array([-0.3, 0.3])).round(4).tolist()
        [0.0161, 0.0326]
    """
    skew = np.maximum(skew, -THIN)
    is_normal = np.abs(skew) < _NORMAL
    shape = 4 / np.where(is_normal, 1.0, skew) ** 2
    x = np.maximum(shape + z * np.sqrt(shape) * np.sign(skew), 0.0)
    p = np.where(skew > 0, scipy.special.gammaincc(shape, x), scipy.special.gammainc(shape, x))
    return np.asarray(np.where(is_normal, scipy.special.ndtr(-z), p))


def brentq(
    of: Callable[[float], float],
    low: float,
    high: float,
    xtol: float = 2e-12,
    rtol: float = 2**-50,
) -> float:
    """Find where a continuous function is 0, between two numbers where its signs differ.

    Brent (1973): a step of the secant or of the inverse parabola, or else half of the bracket. The
    steps are those of `scipy.optimize.brentq`, to the last bit; importing SciPy's optimisers would
    take longer than most analyses spend on statistics.

    Args:
        of: The function.
        low: One end of the bracket.
        high: The other end.
        xtol: The root may be so far off.
        rtol: And by this share of itself.

    Raises:
        ValueError: The function has the same sign at both ends.
        RuntimeError: The root is not near after 100 steps.

    Example:
        >>> round(brentq(lambda x: x * x - 2, 0.0, 2.0), 12)
        1.414213562373
    """
    before, here, other = float(low), float(high), 0.0
    f_before, f_here, f_other = of(before), of(here), 0.0
    if f_before == 0 or f_here == 0:
        return before if f_before == 0 else here
    if (f_before > 0) == (f_here > 0):
        raise ValueError(f"the function has the same sign at {low} and at {high}")
    last = step = 0.0
    for _ in range(100):
        if f_before != 0 and (f_before > 0) != (f_here > 0):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        least, half = (xtol + rtol * abs(here)) / 2, (other - here) / 2
        if f_here == 0 or abs(half) < least:
            return here
        tried = math.inf
        if abs(last) > least and abs(f_here) < abs(f_before):
            if before == other:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                d_before = (f_before - f_here) / (before - here)
                d_other = (f_other - f_here) / (other - here)
                tried = -f_here * (f_other * d_other - f_before * d_before)
                tried /= d_other * d_before * (f_other - f_before)
        is_short = 2 * abs(tried) < min(abs(last), 3 * abs(half) - least)
        last, step = (step, tried) if is_short else (half, half)
        before, f_before = here, f_here
        here += step if abs(step) > least else math.copysign(least, half)
        f_here = of(here)
    raise RuntimeError(f"no root is near {here} after 100 steps")
