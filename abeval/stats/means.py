"""Difference in means of a value per unit, by Welch's test."""

from abeval.stats import effects
from abeval.stats.distributions import Alternative
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Estimate


def estimate(moments: Moments) -> Estimate:
    """Mean of variable 0 and its sampling variance s²/n.

    Args:
        moments: Moments of at least one variable over the units of one variant.

    Raises:
        Refusal: `too_few_units` below two units.

    Example:
        >>> e = estimate(Moments.of([1, 2, 3, 4]))
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
    return effects.compare(estimate(control), estimate(treatment), alpha, "welch_t", alternative)
