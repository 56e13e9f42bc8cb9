"""Means and ratios over units, and smooth functions of them, by Welch and the delta method."""

import math
from collections.abc import Callable

import numpy as np

from abeval.stats import effects
from abeval.stats.distributions import Alternative
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate, Floats, Refusal


def estimate_mean(moments: Moments) -> Estimate:
    """Mean of variable 0 and its sampling variance s²/n.

    Args:
        moments: Moments of at least one variable over the units of one variant.

    Raises:
        Refusal: `too_few_units` below two units.

    Example:
        >>> e = estimate_mean(Moments.of([1, 2, 3, 4]))
        >>> e.value, round(e.variance, 6), e.units, e.df
        (2.5, 0.416667, 4, 3.0)
    """
    variance = float(moments.covariance[0, 0]) / moments.n
    return Estimate(float(moments.mean[0]), variance, moments.n, moments.df)


def welch(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> Effect:
    """Difference in means with unequal variances, t with estimated df (Welch 1947).

    Args:
        control: Moments of the control, variable 0 being the value.
        treatment: Moments of the treatment.
        alpha: Error rate of the test and of the interval.
        alternative: Side of the alternative hypothesis.

    Raises:
        Refusal: `too_few_units`, `zero_variance`.

    Example:
        >>> e = welch(Moments.of([1, 2, 3, 4]), Moments.of([3, 4, 5, 9]))
        >>> e.difference, round(e.df, 4), round(e.p_value, 4)
        (2.75, 4.3664, 0.1277)
    """
    return effects.compare(
        estimate_mean(control), estimate_mean(treatment), alpha, "welch_t", alternative
    )


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


def estimate_ratio(moments: Moments) -> Estimate:
    """Ratio of the means of variables 0 and 1, variance by the delta method.

    Var(R) = (s_y² − 2R s_xy + R² s_x²) / (n x̄²), divisor n − 1 in the covariances (Deng,
    Knoblich and Lu 2018). Clicks over impressions have this form, and so has every weighted
    mean of values per user, such as GAUC as Σ n·AUC / Σ n.

    Args:
        moments: Moments of numerator and denominator per unit.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`.

    Example:
        >>> e = estimate_ratio(Moments.of([1, 0, 2, 1], [4, 5, 6, 5]))
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
    return effects.compare(
        estimate_ratio(control), estimate_ratio(treatment), alpha, "delta_t", alternative
    )


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


def estimate_smooth(moments: Moments, function: Smooth) -> Estimate:
    """A smooth function of means over units, variance by the delta method.

    Var(g(x̄)) = ∇g' Σ ∇g / n, Σ with divisor n − 1 (Deng, Knoblich and Lu 2018).

    Args:
        moments: Moments of the variables per unit.
        function: The function of the means.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`.

    Example:
        >>> e = estimate_smooth(Moments.of([1, 0, 2, 1], [4, 5, 6, 5]), ratio(0, 1))
        >>> e.value, round(e.variance, 6)
        (0.2, 0.0056)
    """
    value, slope = function(moments.mean)
    variance = quadratic(slope, moments.covariance) / moments.n
    return Estimate(value, variance, moments.n, float(moments.n - 1))


def paired_difference(
    moments: Moments, control: Smooth, treatment: Smooth, alpha: float = 0.05
) -> Effect:
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
        >>> e = paired_difference(m, ratio(0, 1), ratio(2, 3))
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


def paired_ratios(moments: Moments, alpha: float = 0.05) -> Effect:
    """Difference of two ratio metrics of the same units.

    Args:
        moments: Moments of (y, x) of the first model and (y, x) of the second.
        alpha: Error rate of the test and of the interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.

    Example:
        >>> one = [1, 1, 1, 1]
        >>> e = paired_ratios(Moments.of([1, 0, 2, 1], one, [2, 1, 3, 1], one))
        >>> e.difference, round(e.se, 4)
        (0.75, 0.25)
    """
    return paired_difference(moments, ratio(0, 1), ratio(2, 3), alpha)
