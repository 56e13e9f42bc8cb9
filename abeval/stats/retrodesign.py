"""How wrong a significant result may be: type S (sign) and type M (size) errors.

The notes of a result show it; for your own numbers: docs/statistics.md.
"""

import math
from typing import NamedTuple

from scipy.special import ndtr

from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Refusal


class Retrodesign(NamedTuple):
    """Errors of significant results at an assumed true effect.

    Attributes:
        power: Probability of a significant result.
        type_s: Probability that a significant result has the wrong sign.
        exaggeration: Mean size of significant estimates over the true size (type M).
    """

    power: float
    type_s: float
    exaggeration: float


def type_s_m(true_effect: float, se: float, alpha: float = 0.05) -> Retrodesign:
    """Power, type S and type M error of a z-test (Gelman and Carlin 2014), in closed form.

    Args:
        true_effect: Assumed true difference, from outside the experiment.
        se: Standard error of the estimate.
        alpha: Two-sided error rate of the test.

    Raises:
        Refusal: `zero_variance` when `se` is not positive, `not_finite`.

    Example:
        >>> r = type_s_m(0.02, 0.012)
        >>> round(r.power, 4), round(r.type_s, 6), round(r.exaggeration, 4)
        (0.3848, 0.000373, 1.596)
    """
    if not (math.isfinite(true_effect) and math.isfinite(se)):
        raise Refusal("not_finite", "the effect or its standard error is not finite")
    if se <= 0:
        raise Refusal("zero_variance", "the standard error must be positive")
    shift, critical = abs(true_effect) / se, two_sided_quantile(alpha)
    right, wrong = float(ndtr(shift - critical)), float(ndtr(-shift - critical))
    power = right + wrong
    if shift == 0:
        return Retrodesign(power, 0.5, math.inf)
    # E|Z|·1(|Z| > c) of Z ~ N(shift, 1), both tails of the truncated normal.
    tails = shift * (right - wrong) + _density(critical - shift) + _density(critical + shift)
    return Retrodesign(power, wrong / power, tails / power / shift)


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
