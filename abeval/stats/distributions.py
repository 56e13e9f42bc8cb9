"""Compute quantiles and tails of normal, t and Pearson III, and roots."""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

# SciPy loads `scipy.special` where it is first used: one interval of many units needs none of it.
import scipy

from abeval.stats.records import Floats

# Below this a double loses digits, so the logarithm is computed directly.
_SMALLEST_TRUSTED = 1e-290
# From here up three terms of the expansion of Fisher and Cornish (1960) are exact to a double.
_EXPANDED = 1e5


class Tail(NamedTuple):
    """A p-value (0 below about 1e-308) and its base-10 logarithm."""

    p_value: float
    log10: float


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless `alpha` is strictly between 0 and 1."""
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
    """
    check_alpha(alpha)
    return -quantile(alpha / 2, df)


def upper_tail(z: float) -> Tail:
    """Return P(Z > z) of the normal, precise for large z.

    Example:
        >>> f"{upper_tail(35).p_value:.6e}", round(upper_tail(40).log10, 6)
        ('1.124911e-268', -349.437006)
    """
    p_value = float(scipy.special.ndtr(-z))
    if p_value > _SMALLEST_TRUSTED:
        return Tail(p_value, math.log10(p_value))
    return Tail(p_value, float(scipy.special.log_ndtr(-z)) / math.log(10))


def compute_p_value(statistic: float, df: float = math.inf) -> float:
    """Return the two-sided p-value of t, or of z if `df` is infinite.

    Example:
        >>> f"{compute_p_value(10):.6e}"
        '1.523971e-23'
    """
    size = -abs(statistic)
    tail = scipy.special.ndtr(size) if math.isinf(df) else scipy.special.stdtr(df, size)
    return 2 * float(tail)


# Largest skewness towards the bounded side: rare large values thin that tail no further.
_THIN = 0.5

# Below this skewness the distribution is taken as normal.
_NORMAL = 1e-5


def skewed_tail(z: float, skew: float) -> Tail:
    """Return P(Z > z) of Pearson's type III with mean 0 and variance 1.

    Source: Mielke and Berry (2001).

    Example:
        >>> [round(skewed_tail(1.96, skew).p_value, 4) for skew in (-0.3, 0.0, 0.3)]
        [0.0161, 0.025, 0.0326]
    """
    skew = max(skew, -_THIN)
    if abs(skew) < _NORMAL:
        return upper_tail(z)
    shape = 4 / skew**2
    # Pearson III is a shifted gamma of shape 4 / skewness².
    x = shape + z * math.sqrt(shape) * math.copysign(1, skew)
    if x <= 0:
        return Tail(1.0, 0.0) if skew > 0 else Tail(0.0, -math.inf)
    p = float(scipy.special.gammaincc(shape, x) if skew > 0 else scipy.special.gammainc(shape, x))
    if p > _SMALLEST_TRUSTED:
        return Tail(p, math.log10(p))
    # The first term of either tail.
    log_gamma = float(scipy.special.gammaln(shape))
    log = shape * math.log(x) - x - log_gamma - math.log(x if skew > 0 else shape)
    return Tail(p, log / math.log(10))


def compute_skewed_p_values(z: Floats, skew: Floats) -> Floats:
    """Return two-sided p-values of Pearson's type III: twice the smaller tail.

    Example:
        >>> compute_skewed_p_values(np.array([1.96, -1.96]), np.array([0.3, 0.3])).round(4).tolist()
        [0.0651, 0.0322]
    """
    smaller = np.minimum(skewed_tails(z, skew), skewed_tails(-z, -skew))
    return np.asarray(np.minimum(1.0, 2 * smaller))


def skewed_tails(z: Floats, skew: Floats) -> Floats:
    """Return P(Z > z) as `skewed_tail` has it, of arrays."""
    skew = np.maximum(skew, -_THIN)
    is_normal = np.abs(skew) < _NORMAL
    shape = 4 / np.where(is_normal, 1.0, skew) ** 2
    x = np.maximum(shape + z * np.sqrt(shape) * np.sign(skew), 0.0)
    p = np.where(skew > 0, scipy.special.gammaincc(shape, x), scipy.special.gammainc(shape, x))
    return np.asarray(np.where(is_normal, scipy.special.ndtr(-z), p))


@cache
def legendre(count: int) -> tuple[Floats, Floats]:
    """Return cached Gauss-Legendre nodes and weights."""
    return np.polynomial.legendre.leggauss(count)


def brentq(
    function: Callable[[float], float],
    low: float,
    high: float,
    xtol: float = 2e-12,
    rtol: float = 2**-50,
) -> float:
    """Find the root of a continuous function between two points.

    The function must have different signs at the two points. This is Brent's method (1973), with
    the steps and the exact results of `scipy.optimize.brentq`. Importing SciPy's optimisers would
    take longer than most analyses spend on statistics. The root is off by at most `xtol` + `rtol` ·
    root.

    Raises:
        ValueError: The function has the same sign at both ends.
        RuntimeError: The root is not found within 100 steps.

    Example:
        >>> round(brentq(lambda x: x * x - 2, 0.0, 2.0), 12)
        1.414213562373
    """
    before, here, other = float(low), float(high), 0.0
    f_before, f_here, f_other = function(before), function(here), 0.0
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
        f_here = function(here)
    raise RuntimeError(f"no root is near {here} after 100 steps")
