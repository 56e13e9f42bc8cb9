"""Effects and lifts from estimates: difference, interval and p-value; relative effects."""

import math
from collections.abc import Sequence

from abeval.stats.distributions import Alternative, check_alpha, quantile, tail, two_sided_quantile
from abeval.stats.records import Adjusted, Effect, Estimate, Interval, Lift, Refusal


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


def fieller(
    control: Estimate, treatment: Estimate, alpha: float = 0.05, df: float | None = None
) -> Lift:
    """Relative effect with Fieller's interval (Fieller 1940, 1954).

    The interval is the set of lifts λ that the test of treatment − (1 + λ)·control = 0
    does not reject; it excludes zero exactly when the absolute test with the same quantile
    rejects. If the control is not distinct from zero, that set is not an interval with two
    ends: the lift is then unbounded, and the interval covers everything.

    Args:
        control: Estimate of the control; the lift is over its absolute value.
        treatment: Independent estimate of the treatment.
        alpha: Error rate of the interval.
        df: Degrees of freedom of the quantile; those of the absolute test when omitted.

    Raises:
        Refusal: `control_near_zero` when the control is exactly zero, `zero_variance`,
            `not_finite`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = fieller(control, treatment, df=math.inf)
        >>> round(lift.value, 4), round(lift.low, 4), round(lift.high, 4)
        (0.1, 0.0401, 0.1632)
    """
    total = total_variance(control, treatment)
    q = two_sided_quantile(alpha, _welch_df(control, treatment) if df is None else df)
    difference = treatment.value - control.value
    return _lift(difference, total, -control.variance, control.value, control.variance, q)


def fieller_adjusted(adjusted: Adjusted, alpha: float = 0.05) -> Lift:
    """Fieller's interval of an adjusted difference over the control as observed.

    Args:
        adjusted: Result of CUPED, regression or post-stratification.
        alpha: Error rate of the interval.

    Raises:
        Refusal: `control_near_zero`.

    Example:
        >>> from abeval.stats import cuped
        >>> from abeval.stats.moments import Moments
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> lift = fieller_adjusted(cuped.mean(control, treatment))
        >>> round(lift.value, 4), round(lift.low, 4), round(lift.high, 4)
        (0.086, -0.0699, 0.2352)
    """
    effect, control = adjusted.effect, adjusted.control
    q = two_sided_quantile(alpha, effect.df)
    variance = effect.se * effect.se
    return _lift(
        effect.difference, variance, adjusted.covariance, control.value, control.variance, q
    )


def delta(
    control: Estimate, treatment: Estimate, alpha: float = 0.05, df: float | None = None
) -> Lift:
    """Relative effect with the symmetric interval of the delta method.

    Its two error rates differ for skewed metrics, and it may disagree with the absolute test;
    `fieller` has neither problem. `df` defaults to that of the relative variance. Other
    arguments and refusals as in `fieller`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = delta(control, treatment, df=math.inf)
        >>> round(lift.low, 4), round(lift.high, 4)
        (0.0385, 0.1615)
    """
    se = delta_se(control, treatment)
    q = two_sided_quantile(alpha, _relative_df(control, treatment) if df is None else df)
    return _symmetric(treatment.value - control.value, control.value, se, q)


def delta_se(control: Estimate, treatment: Estimate) -> float:
    """Standard error of treatment / |control| − 1 by the delta method.

    Raises:
        Refusal: `control_near_zero`, `zero_variance`, `not_finite`.

    Example:
        >>> round(delta_se(Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)), 6)
        0.031369
    """
    total = total_variance(control, treatment)
    return _relative_se(treatment.value - control.value, total, -control.variance, control)


def delta_adjusted(adjusted: Adjusted, alpha: float = 0.05) -> Lift:
    """Like `fieller_adjusted`, with the symmetric interval of the delta method.

    Example:
        >>> from abeval.stats import cuped
        >>> from abeval.stats.moments import Moments
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> lift = delta_adjusted(cuped.mean(control, treatment))
        >>> round(lift.value, 4), round(lift.low, 4), round(lift.high, 4)
        (0.086, -0.06, 0.2319)
    """
    se = delta_se_adjusted(adjusted)
    q = two_sided_quantile(alpha, adjusted.effect.df)
    return _symmetric(adjusted.effect.difference, adjusted.control.value, se, q)


def delta_se_adjusted(adjusted: Adjusted, at: float | None = None) -> float:
    """Standard error of the adjusted difference over |control|.

    Includes the covariance of the observed control and the adjusted difference, without which
    the interval would cover too little.

    Args:
        adjusted: Result of CUPED, regression or post-stratification.
        at: Value of the treatment at which to take the derivative, `adjusted.treatment` when
            omitted. The control plus the adjusted difference estimates the same value.

    Raises:
        Refusal: `control_near_zero`.

    Example:
        >>> from abeval.stats import cuped
        >>> from abeval.stats.moments import Moments
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> round(delta_se_adjusted(cuped.mean(control, treatment)), 4)
        0.0558
    """
    effect, control = adjusted.effect, adjusted.control
    treatment = adjusted.treatment.value if at is None else at
    return _relative_se(
        treatment - control.value, effect.se * effect.se, adjusted.covariance, control
    )


def log_delta(
    control: Estimate, treatment: Estimate, alpha: float = 0.05, df: float | None = None
) -> Lift:
    """Relative effect with the interval symmetric in log(treatment / control).

    Arguments as in `delta`.

    Raises:
        Refusal: `not_applicable` when the two values differ in sign or one is zero,
            `control_near_zero`, `zero_variance`, `not_finite`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = log_delta(control, treatment, df=math.inf)
        >>> round(lift.low, 4), round(lift.high, 4)
        (0.0402, 0.1632)
    """
    se = log_se(control, treatment)
    ratio = treatment.value / control.value
    half = se * two_sided_quantile(alpha, _relative_df(control, treatment) if df is None else df)
    # math.exp raises an exception when it overflows; above e^700 the end counts as infinite.
    high = ratio * math.exp(half) if half < 700 else math.inf
    ends = Interval(ratio * math.exp(-half) - 1, high - 1)
    return _signed(control.value, ratio - 1, ends, "log_delta")


def log_se(control: Estimate, treatment: Estimate) -> float:
    """Standard error of log(treatment / control).

    Raises:
        Refusal: As `log_delta`.

    Example:
        >>> round(log_se(Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)), 6)
        0.028517
    """
    total_variance(control, treatment)
    if _divide(treatment.value, control.value) <= 0:
        raise Refusal("not_applicable", "a logarithm needs two values of the same sign")
    of_control = math.sqrt(control.variance) / control.value
    return math.hypot(of_control, math.sqrt(treatment.variance) / treatment.value)


def _welch_df(control: Estimate, treatment: Estimate) -> float:
    return satterthwaite([control.variance, treatment.variance], [control.df, treatment.df])


def _relative_df(control: Estimate, treatment: Estimate) -> float:
    """Degrees of freedom of Var_c·ρ² + Var_t, to which the lift's variance is proportional."""
    ratio = _divide(treatment.value, control.value)
    scaled = control.variance * ratio * ratio
    if not math.isfinite(scaled):
        raise Refusal("control_near_zero", "the control is too close to zero to divide by")
    if scaled + treatment.variance == 0:
        raise Refusal("zero_variance", "the lift does not vary")
    return satterthwaite([scaled, treatment.variance], [control.df, treatment.df])


def _divide(value: float, control: float) -> float:
    if control == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    relative = value / control
    if not math.isfinite(relative):
        raise Refusal("control_near_zero", "the control is too close to zero to divide by")
    return relative


def _relative_se(difference: float, variance: float, covariance: float, control: Estimate) -> float:
    """Delta-method standard error of difference / |control|, which are correlated."""
    relative = _divide(difference, control.value)
    spread = variance - 2 * relative * covariance + relative * relative * control.variance
    return abs(_divide(math.sqrt(max(spread, 0.0)), control.value))


def _symmetric(difference: float, control: float, se: float, q: float) -> Lift:
    relative = _divide(difference, control)
    return _signed(control, relative, Interval(relative - q * se, relative + q * se), "delta")


def _lift(
    difference: float,
    variance: float,
    covariance: float,
    control: float,
    control_variance: float,
    q: float,
) -> Lift:
    """Roots λ of (difference − λ·control)² = q²·Var(difference − λ·control)."""
    relative = _divide(difference, control)
    scale = _divide(q, control)
    # In units of the control: a λ² − 2b λ + c ≤ 0 between the roots; g ≥ 1 leaves none.
    v, w, g = (x * scale * scale for x in (variance, covariance, control_variance))
    if not g < 1:
        return _signed(control, relative, Interval(-math.inf, math.inf), "fieller")
    a, b = 1 - g, relative - w
    # b² − a·c without the terms that cancel: v − 2ρw + ρ²g + w² − v·g.
    root = math.sqrt(max(v - 2 * relative * w + relative * relative * g + w * w - v * g, 0.0))
    return _signed(control, relative, Interval((b - root) / a, (b + root) / a), "fieller")


def _signed(control: float, relative: float, ends: Interval, method: str) -> Lift:
    """Lift over the absolute value of the control, from a change over the control."""
    if control < 0:
        relative, ends = -relative, Interval(-ends.high, -ends.low)
    bounded = math.isfinite(ends.low) and math.isfinite(ends.high)
    return Lift(relative, ends.low, ends.high, bounded, method)
