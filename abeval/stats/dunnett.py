"""Several treatments against one control (Dunnett 1955).

`inference/families.py` hands over the p-values of one goal in all variants, for the family method
`dunnett`.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import brentq, quantile, tail
from abeval.stats.records import Floats, Refusal

_LARGE = 1e6
"""Degrees of freedom from which t is the normal to double precision of these integrals."""


def p_values(p_values: ArrayLike, loadings: ArrayLike, df: float = math.inf) -> Floats:
    """Adjust the p-values of several treatments for their number, knowing that control is shared.

    Args:
        p_values: Two-sided, one per treatment, shape (treatments,).
        loadings: Correlation of each difference with control's value, shape (treatments,):
            √(control's variance / the difference's). Two differences correlate by the product.
        df: Degrees of freedom of the t statistics.

    Returns:
        Adjusted p-values, shape (treatments,), between each own and Bonferroni's.

    Raises:
        Refusal: `not_applicable` for lengths that differ or a loading outside [0, 1].

    Source:
        Dunnett (JASA 1955), with unequal variances as correlations.

    Example:
        >>> p_values([0.01, 0.2], [0.7071, 0.7071]).round(4).tolist()
        [0.019, 0.3337]
    """
    p, shared, free = np.asarray(p_values, dtype=float), _checked(loadings), _df(df)
    if p.shape != shared.shape:
        raise Refusal("not_applicable", "one loading per p-value")
    adjusted = [
        _p_value(-quantile(one / 2, free), shared, free) if 0 < one < 1 else one
        for one in p.tolist()
    ]
    return np.asarray(np.maximum(p, adjusted))


def level(alpha: float, loadings: ArrayLike, df: float = math.inf) -> float:
    """Error rate of each interval such that all hold together at 1 - alpha.

    Args:
        alpha: Family-wise error rate.
        loadings: As in `p_values`.
        df: As in `p_values`.

    Example:
        >>> round(level(0.05, [0.7071, 0.7071]), 4)
        0.027
    """
    critical = _critical(alpha, _checked(loadings), _df(df))
    return tail(critical, df, "two-sided")[0]


def _checked(loadings: ArrayLike) -> Floats:
    shared = np.asarray(loadings, dtype=float)
    if shared.ndim != 1 or not np.all((shared >= 0) & (shared <= 1)):
        raise Refusal("not_applicable", "loadings are correlations between 0 and 1")
    return np.asarray(np.minimum(shared, 1 - 1e-12))


def _df(df: float) -> float:
    return min(df, _LARGE)


def _p_value(statistic: float, loadings: Floats, df: float) -> float:
    """P(max |T| >= statistic): the common factor z and the common scale are integrated out."""
    z, z_weight = _nodes()
    z, z_weight = 9.0 * z, 9.0 * z_weight * np.exp(-0.5 * (9.0 * z) ** 2) / np.sqrt(2 * np.pi)
    scale, u_weight = _pooled_scale(df)
    bound = statistic * scale[:, None, None]
    shift = loadings * z[:, None]
    spread = np.sqrt(1 - loadings**2)
    # Tails are added per arm before the product is taken, so a tiny p-value is not lost.
    outside = special.ndtr(-(bound + shift) / spread) + special.ndtr(-(bound - shift) / spread)
    exceed = -np.expm1(np.sum(np.log1p(-np.minimum(outside, 1 - 1e-16)), axis=2))
    return min(1.0, float(u_weight @ exceed @ z_weight))


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre, which take longer than what they integrate."""
    return np.polynomial.legendre.leggauss(160)


def _pooled_scale(df: float) -> tuple[Floats, Floats]:
    """Nodes and weights for s/sigma of the pooled variance, even in the logarithm."""
    half = df / 2
    low, high = special.gammaincinv(half, 1e-17), special.gammainccinv(half, 1e-17)
    u, weight = _nodes()
    span = (np.log(high) - np.log(low)) / 2
    x = np.log(low) + span * (u + 1)
    density = np.exp(half * x - np.exp(x) - special.gammaln(half))
    return np.sqrt(2 * np.exp(x) / df), span * weight * density


def _critical(alpha: float, loadings: Floats, df: float) -> float:
    high = -float(special.stdtrit(df, alpha / len(loadings) / 2))
    return brentq(lambda c: _p_value(c, loadings, df) - alpha, 0.0, high + 1e-6)
