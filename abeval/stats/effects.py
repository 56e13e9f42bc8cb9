"""An effect from two estimates: difference, interval and p-value.

The last step of most tests of `stats/`. `inference/` and `offline/estimates/` call it with
estimates, or with a difference and its standard error.
"""

import math
from collections.abc import Sequence

from abeval.stats.distributions import Alternative, check_alpha, quantile, tail
from abeval.stats.records import Effect, Estimate, Interval, Refusal


def compare(
    control: Estimate,
    treatment: Estimate,
    alpha: float = 0.05,
    method: str = "welch_t",
    alternative: Alternative = "two-sided",
) -> Effect:
    """Difference of two independent estimates.

    The reference distribution is t with the degrees of freedom of Satterthwaite (1946),
    or the normal where both estimates have infinite degrees of freedom.

    Args:
        control: Estimate of the control.
        treatment: Estimate of the treatment, in the same unit.
        alpha: Error rate of the test and of the interval.
        method: Id recorded in the effect.
        alternative: `greater` and `less` give one-sided p-values and half-open intervals.

    Raises:
        Refusal: `zero_variance` when neither estimate varies, `not_finite`.

    Example:
        >>> e = compare(Estimate(10, 0.5, 100, 99), Estimate(12, 0.5, 100, 99))
        >>> e.difference, e.se, round(e.df, 6), round(e.p_value, 6)
        (2.0, 1.0, 198.0, 0.046867)
    """
    variance = total_variance(control, treatment)
    return from_difference(
        control.value,
        treatment.value,
        treatment.value - control.value,
        math.sqrt(variance),
        satterthwaite([control.variance, treatment.variance], [control.df, treatment.df]),
        alpha,
        method,
        alternative,
    )


def total_variance(control: Estimate, treatment: Estimate) -> float:
    """Variance of the difference of two independent estimates.

    Raises:
        Refusal: `zero_variance` or `not_finite`.

    Example:
        >>> total_variance(Estimate(1, 0.5, 9, 8), Estimate(1, 0.25, 9, 8))
        0.75
    """
    variance = control.variance + treatment.variance
    if not all(map(math.isfinite, (control.value, treatment.value, variance))):
        raise Refusal("not_finite", "an estimate or its variance is not finite")
    if min(control.variance, treatment.variance) < 0:
        raise Refusal("inconsistent", "a variance is negative")
    if variance == 0:
        raise Refusal("zero_variance", "neither variant varies: no test is possible")
    return variance


def satterthwaite(variances: Sequence[float], dfs: Sequence[float]) -> float:
    """Degrees of freedom of a sum of independent variances (Satterthwaite 1946).

    Args:
        variances: Terms of the sum, not all zero.
        dfs: Degrees of freedom of each term; infinite for a known variance.

    Example:
        >>> round(satterthwaite([1.0, 1.0], [10, 10]), 6), satterthwaite([1.0], [math.inf])
        (20.0, inf)
    """
    total = math.fsum(variances)
    # Shares rather than squares of the variances, which could overflow or vanish.
    inverse = math.fsum(
        (v / total) ** 2 / df for v, df in zip(variances, dfs, strict=True) if v > 0
    )
    return math.inf if inverse == 0 else 1 / inverse


def from_difference(
    control: float,
    treatment: float,
    difference: float,
    se: float,
    df: float = math.inf,
    alpha: float = 0.05,
    method: str = "z",
    alternative: Alternative = "two-sided",
) -> Effect:
    """Effect from a difference and its standard error.

    Args:
        control: Value in control.
        treatment: Value in treatment.
        difference: Estimated effect; adjusted ones need not be treatment − control.
        se: Its standard error.
        df: Degrees of freedom; infinite for z.
        alpha: Error rate of the test and of the interval.
        method: Id recorded in the effect.
        alternative: Side of the alternative hypothesis.

    Raises:
        Refusal: `zero_variance` when `se` is zero, `not_finite`.

    Example:
        >>> e = from_difference(1, 3, 2, 1)
        >>> round(e.low, 4), round(e.high, 4), round(e.p_value, 4)
        (0.04, 3.96, 0.0455)
    """
    if not all(map(math.isfinite, (control, treatment, difference, se))):
        raise Refusal("not_finite", "a difference or its standard error is not finite")
    if se <= 0:
        raise Refusal("zero_variance", "the standard error is zero: no test is possible")
    statistic = difference / se
    p_value, log10 = tail(statistic, df, alternative)
    low, high = interval(difference, se, df, alpha, alternative)
    values = (float(control), float(treatment), float(difference), float(se), float(df))
    return Effect(*values, low, high, statistic, p_value, log10, method)


def joined(low: Effect, high: Effect) -> Effect:
    """One effect of two that have the same difference and a standard error for each side.

    Its ends are the lower end of one and the higher end of the other. Standard error, statistic and
    p-value are those of the side that faces zero, so that they agree with the interval.

    Args:
        low: The effect with the error towards lower differences.
        high: The effect with the error towards higher ones.

    Example:
        >>> e = joined(from_difference(1, 3, 2, 1), from_difference(1, 3, 2, 2))
        >>> round(e.low, 2), round(e.high, 2), round(e.p_value, 4)
        (0.04, 5.92, 0.0455)
    """
    facing = low if low.difference > 0 else high
    return facing._replace(low=low.low, high=high.high)


def interval(
    value: float,
    se: float,
    df: float = math.inf,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> Interval:
    """Confidence interval of an estimate; one end is infinite for a one-sided alternative.

    Example:
        >>> low, high = interval(0.0, 1.0, alpha=0.05, alternative="greater")
        >>> round(low, 4), high
        (-1.6449, inf)
    """
    check_alpha(alpha)
    if alternative == "two-sided":
        half = -quantile(alpha / 2, df) * se
        return Interval(value - half, value + half)
    half = -quantile(alpha, df) * se
    if alternative == "greater":
        return Interval(value - half, math.inf)
    return Interval(-math.inf, value + half)
