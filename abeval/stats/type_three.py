"""Tails of Pearson's type III distribution: a normal one with skewness.

`skewed.py` tests two variants by it, `replay.py` thousands of A/A splits at once.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincc, gammaln, ndtr

from abeval.stats.distributions import upper_tail
from abeval.stats.records import Floats

THIN = 0.5
"""The tail on the side where values end counts on no more skewness than this.

What rare large values add to the skewness does not make that tail any thinner
(`benchmarks.calibration.skew`).
"""

_NORMAL = 1e-5
"""Below this skewness the distribution is the normal."""


def tail(z: float, skew: float) -> tuple[float, float]:
    """P(Z > z) of a mean 0 and a variance 1, and its log10 (Mielke and Berry 2001, chapter 2).

    Example:
        >>> [round(tail(1.96, skew)[0], 4) for skew in (-0.3, 0.0, 0.3)]
        [0.0161, 0.025, 0.0326]
    """
    skew = max(skew, -THIN)
    if abs(skew) < _NORMAL:
        return upper_tail(z)
    shape = 4 / skew**2
    x = shape + z * math.sqrt(shape) * math.copysign(1, skew)
    if x <= 0:
        return (1.0, 0.0) if skew > 0 else (0.0, -math.inf)
    p = float(gammaincc(shape, x) if skew > 0 else gammainc(shape, x))
    if p > 1e-290:
        return p, math.log10(p)
    # The first term of either tail.
    log = shape * math.log(x) - x - float(gammaln(shape)) - math.log(x if skew > 0 else shape)
    return p, log / math.log(10)


def p_values(z: ArrayLike, skew: ArrayLike) -> Floats:
    """Two-sided p-values, twice the smaller tail, of arrays of one shape.

    Example:
        >>> p_values([1.96, -1.96], [0.3, 0.3]).round(4).tolist()
        [0.0651, 0.0322]
    """
    z, skew = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(skew, dtype=float))
    smaller = np.minimum(tails(z, skew), tails(-z, -skew))
    return np.asarray(np.minimum(1.0, 2 * smaller))


def tails(z: Floats, skew: Floats) -> Floats:
    """P(Z > z) as `tail` has it, of arrays of one shape.

    Example:
        >>> tails(np.array([1.96, 1.96]), np.array([-0.3, 0.3])).round(4).tolist()
        [0.0161, 0.0326]
    """
    skew = np.maximum(skew, -THIN)
    is_normal = np.abs(skew) < _NORMAL
    shape = 4 / np.where(is_normal, 1.0, skew) ** 2
    x = np.maximum(shape + z * np.sqrt(shape) * np.sign(skew), 0.0)
    tails = np.where(skew > 0, gammaincc(shape, x), gammainc(shape, x))
    return np.asarray(np.where(is_normal, ndtr(-z), tails))
