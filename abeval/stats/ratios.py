"""Ratio metrics Σnumerator / Σdenominator; their variance is between units of randomisation.

`inference/means_and_ratios.py` and `off_policy/run.py` take `estimate` from moments; other modules
of `stats/` take the gradient and the test `delta`.
"""

import numpy as np

from abeval.stats import effects
from abeval.stats.distributions import Alternative
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats, Refusal

# A variance below this share of its terms is an exact zero plus rounding.
_ROUNDING = 1e-13


def gradient(mean: Floats, numerator: int = 0, denominator: int = 1) -> Floats:
    """Derivative of mean[numerator] / mean[denominator] by all means, shape (k,).

    Raises:
        Refusal: `zero_denominator`.

    Example:
        >>> gradient(np.array([1.0, 4.0])).tolist()
        [0.25, -0.0625]
    """
    divisor = float(mean[denominator])
    if divisor == 0:
        raise Refusal("zero_denominator", "the denominator of the ratio sums to zero")
    weights = np.zeros(mean.size)
    weights[numerator] = 1 / divisor
    weights[denominator] -= float(mean[numerator]) / divisor / divisor
    if not np.isfinite(weights).all():
        raise Refusal("zero_denominator", "the denominator of the ratio is almost zero")
    return weights


def quadratic(weights: Floats, covariance: Floats) -> float:
    """w'Σw; zero if only rounding error is left.

    Example:
        >>> quadratic(np.array([1.0, -0.1]), np.array([[0.01, 0.1], [0.1, 1.0]]))
        0.0
    """
    terms = weights[:, None] * covariance * weights
    value = float(terms.sum())
    return value if value > _ROUNDING * float(np.abs(terms).sum()) else 0.0


def estimate(moments: Moments) -> Estimate:
    """Ratio of the means of variables 0 and 1, variance by the delta method.

    Var(R) = (s_y² − 2R s_xy + R² s_x²) / (n x̄²), divisor n − 1 in the covariances (Deng,
    Knoblich and Lu 2018). Clicks over impressions have this form, and so has every weighted
    mean of values per user, such as GAUC as Σ n·AUC / Σ n.

    Args:
        moments: Moments of numerator and denominator per unit.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`.

    Example:
        >>> e = estimate(Moments.of([1, 0, 2, 1], [4, 5, 6, 5]))
        >>> e.value, round(e.variance, 6), e.units, e.df
        (0.2, 0.0056, 4, 3.0)
    """
    pair = moments.pick(0, 1)
    covariance = pair.covariance
    variance = quadratic(gradient(pair.mean), covariance) / pair.n
    return Estimate(float(pair.mean[0] / pair.mean[1]), variance, pair.n, pair.df)


def delta(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> Effect:
    """Difference of two ratios by the delta method (Deng, Knoblich and Lu 2018).

    Tested against t with the degrees of freedom of Welch and Satterthwaite, which keeps the
    error rate with few units.

    Args:
        control: Moments of the control, variables 0 and 1 the numerator and denominator.
        treatment: Moments of the treatment.
        alpha: Error rate of the test and of the interval.
        alternative: Side of the alternative hypothesis.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5])
        >>> e = delta(control, Moments.of([2, 1, 3, 1], [4, 6, 6, 5]))
        >>> round(e.difference, 4), round(e.p_value, 4)
        (0.1333, 0.31)
    """
    return effects.compare(estimate(control), estimate(treatment), alpha, "delta_t", alternative)
