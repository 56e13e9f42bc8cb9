"""Difference of two estimates from the same units, with the covariance between them.

Two models scored on one log share its users, so their metrics are correlated; treating them as
independent samples would lose most of the power.

`offline/estimates/inference.py` hands over the moments of the sums per unit of one model or two.
"""

import math
from collections.abc import Callable

from abeval.stats import effects
from abeval.stats.means import gradient, quadratic
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats

Smooth = Callable[[Floats], tuple[float, Floats]]
"""A smooth function of the means: returns its value and its derivative by every mean."""


def ratio(numerator: int, denominator: int) -> Smooth:
    """The ratio of two means.

    Args:
        numerator: Index of the variable in the numerator.
        denominator: Index of the variable in the denominator.

    Example:
        >>> import numpy as np
        >>> value, slope = ratio(0, 1)(np.array([1.0, 4.0]))
        >>> value, slope.tolist()
        (0.25, [0.25, -0.0625])
    """

    def evaluate(mean: Floats) -> tuple[float, Floats]:
        slope = gradient(mean, numerator, denominator)
        return float(mean[numerator] / mean[denominator]), slope

    return evaluate


def estimate(moments: Moments, function: Smooth) -> Estimate:
    """A smooth function of means over units, variance by the delta method.

    Var(g(x̄)) = ∇g' Σ ∇g / n, Σ with divisor n − 1 (Deng, Knoblich and Lu 2018).

    Args:
        moments: Moments of the variables per unit.
        function: The function of the means.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`.

    Example:
        >>> e = estimate(Moments.of([1, 0, 2, 1], [4, 5, 6, 5]), ratio(0, 1))
        >>> e.value, round(e.variance, 6)
        (0.2, 0.0056)
    """
    value, slope = function(moments.mean)
    variance = quadratic(slope, moments.covariance) / moments.n
    return Estimate(value, variance, moments.n, float(moments.n - 1))


def difference(moments: Moments, control: Smooth, treatment: Smooth, alpha: float = 0.05) -> Effect:
    """Difference of two smooth functions of the same units' means, against t with n − 1 df.

    The delta method on treatment − control as one function of the means. Its gradient is the
    difference of the two gradients, so it includes their covariance (Deng, Knoblich and Lu 2018,
    for one ratio).

    Args:
        moments: Moments over units of all variables that the two functions read.
        control: The function of the first model.
        treatment: The function of the second.
        alpha: Error rate of the test and of the interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance` where the two never differ.

    Example:
        >>> m = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [2, 1, 3, 1], [4, 5, 6, 5])
        >>> e = difference(m, ratio(0, 1), ratio(2, 3))
        >>> round(e.difference, 4), round(e.se, 4), round(e.p_value, 4)
        (0.15, 0.0515, 0.0618)
    """
    before, slope_before = control(moments.mean)
    after, slope_after = treatment(moments.mean)
    variance = quadratic(slope_after - slope_before, moments.covariance) / moments.n
    return effects.from_difference(
        *(before, after, after - before, math.sqrt(variance), float(moments.n - 1)),
        alpha=alpha,
        method="paired_delta_t",
    )


def ratios(moments: Moments, alpha: float = 0.05) -> Effect:
    """Difference of two ratio metrics of the same units.

    Args:
        moments: Moments of (y, x) of the first model and (y, x) of the second.
        alpha: Error rate of the test and of the interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.

    Example:
        >>> one = [1, 1, 1, 1]
        >>> e = ratios(Moments.of([1, 0, 2, 1], one, [2, 1, 3, 1], one))
        >>> e.difference, round(e.se, 4)
        (0.75, 0.25)
    """
    return difference(moments, ratio(0, 1), ratio(2, 3), alpha)
