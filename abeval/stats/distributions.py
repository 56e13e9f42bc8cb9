"""Quantiles and tails of the normal and t distributions, exact even if the p-value underflows.

Called by nearly every module of `stats/` that gives an interval or a p-value, and by
`inference/looks.py` and `time/`.
"""

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

# SciPy loads `scipy.special` where it is first used: one interval of many units needs none of it.
import scipy

Alternative = Literal["two-sided", "greater", "less"]

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
    """Quantile of the t distribution, or of the normal if `df` is infinite.

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
    """Half-width of a `1 - alpha` interval in standard errors.

    Computed in the lower tail, which stays precise for a tiny alpha.

    Example:
        >>> round(two_sided_quantile(0.05), 6)
        1.959964
    """
    check_alpha(alpha)
    return -quantile(alpha / 2, df)


def upper_tail(statistic: float, df: float = math.inf) -> Tail:
    """P(T > statistic), computed without subtracting from one.

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


def tail(statistic: float, df: float = math.inf, alternative: Alternative = "two-sided") -> Tail:
    """P-value of a normal or t statistic.

    Args:
        statistic: Estimate over its standard error.
        df: Degrees of freedom; infinite for the normal.
        alternative: Side of the alternative hypothesis.

    Example:
        >>> f"{tail(10).p_value:.6e}"
        '1.523971e-23'
    """
    if alternative == "greater":
        return upper_tail(statistic, df)
    if alternative == "less":
        return upper_tail(-statistic, df)
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
