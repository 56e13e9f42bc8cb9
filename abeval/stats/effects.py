"""Compare estimates: difference, interval, p-value, and lift."""

import math
from collections.abc import Sequence

from abeval.stats.distributions import compute_p_value, two_sided_quantile
from abeval.stats.records import Adjusted, Effect, Estimate, Interval, Lift, Refusal


def compare(
    control: Estimate, treatment: Estimate, alpha: float = 0.05, method: str = "welch_t"
) -> Effect:
    """Compare two independent estimates by t, with Satterthwaite's df (1946).

    The test uses the normal distribution if both estimates have infinite degrees of freedom.
    Refusals: `zero_variance` when neither estimate varies, `not_finite`.

    Example:
        >>> e = compare(Estimate(10, 0.5, 100, 99), Estimate(12, 0.5, 100, 99))
        >>> e.difference, e.se, round(e.df, 6), round(e.p_value, 6)
        (2.0, 1.0, 198.0, 0.046867)
    """
    se = math.sqrt(total_variance(control, treatment))
    difference, df = treatment.value - control.value, _estimate_welch_df(control, treatment)
    return effect_from_difference(control.value, treatment.value, difference, se, df, alpha, method)


def total_variance(control: Estimate, treatment: Estimate) -> float:
    """Return the variance of the difference of two independent estimates.

    Refusals: `zero_variance`, `not_finite` or `inconsistent`.
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
    """Return the degrees of freedom of a sum of independent variances.

    Source: Satterthwaite (1946).

    Not all variances are zero; a known one has infinite degrees of freedom.

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


def effect_from_difference(
    control: float,
    treatment: float,
    difference: float,
    se: float,
    df: float = math.inf,
    alpha: float = 0.05,
    method: str = "z",
) -> Effect:
    """Test a difference by its standard error, against t, or z if `df` is infinite.

    An adjusted difference need not be treatment − control. Refusals: `zero_variance` when `se` is
    zero, `not_finite`.

    Example:
        >>> e = effect_from_difference(1, 3, 2, 1)
        >>> round(e.low, 4), round(e.high, 4), round(e.p_value, 4)
        (0.04, 3.96, 0.0455)
    """
    if not all(map(math.isfinite, (control, treatment, difference, se))):
        raise Refusal("not_finite", "a difference or its standard error is not finite")
    if se <= 0:
        raise Refusal("zero_variance", "the standard error is zero: no test is possible")
    statistic, (low, high) = difference / se, compute_interval(difference, se, df, alpha)
    return Effect(
        control=float(control),
        treatment=float(treatment),
        difference=float(difference),
        se=float(se),
        df=float(df),
        low=low,
        high=high,
        statistic=statistic,
        p_value=compute_p_value(statistic, df),
        method=method,
    )


def merge_sides(low: Effect, high: Effect) -> Effect:
    """Merge two effects with one-sided standard errors into one effect.

    The ends are the lower end of `low` and the higher end of `high`. Standard error, statistic and
    p-value are taken from the side that faces zero, so that they agree with the interval.

    Example:
        >>> e = merge_sides(effect_from_difference(1, 3, 2, 1), effect_from_difference(1, 3, 2, 2))
        >>> round(e.low, 2), round(e.high, 2), round(e.p_value, 4)
        (0.04, 5.92, 0.0455)
    """
    facing = low if low.difference > 0 else high
    return facing._replace(low=low.low, high=high.high)


def compute_interval(
    value: float, se: float, df: float = math.inf, alpha: float = 0.05
) -> Interval:
    """Return the confidence interval of an estimate.

    Example:
        >>> low, high = compute_interval(0.0, 1.0)
        >>> round(low, 4), round(high, 4)
        (-1.96, 1.96)
    """
    half = two_sided_quantile(alpha, df) * se
    return Interval(value - half, value + half)


def fieller(control: Estimate, treatment: Estimate, alpha: float = 0.05) -> Lift:
    """Compute the lift of two estimates, with Fieller's interval.

    Source: Fieller (1940, 1954).

    The interval is the set of lifts λ that the test of treatment − (1 + λ)·control = 0 does not
    reject; it excludes zero exactly when the absolute test rejects. If the control is not distinct
    from zero, that set has no two ends: the lift is then unbounded, and the interval covers
    everything. The lift is over the control's absolute value. Refusals: `control_near_zero` when
    the control is exactly zero, `zero_variance`, `not_finite`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = fieller(control, treatment)
        >>> round(lift.value, 4), round(lift.low, 4), round(lift.high, 4)
        (0.1, 0.0398, 0.1637)
    """
    variance = total_variance(control, treatment)
    q = two_sided_quantile(alpha, _estimate_welch_df(control, treatment))
    return _compute_fieller_interval(
        treatment.value - control.value, variance, -control.variance, control, q
    )


def fieller_adjusted(adjusted: Adjusted, alpha: float = 0.05) -> Lift:
    """Compute the lift of an adjusted difference, with Fieller's interval.

    Refusals: `control_near_zero`.
    """
    effect, q = adjusted.effect, two_sided_quantile(alpha, adjusted.effect.df)
    return _compute_fieller_interval(
        effect.difference, effect.se * effect.se, adjusted.covariance, adjusted.control, q
    )


def delta(control: Estimate, treatment: Estimate, alpha: float = 0.05) -> Lift:
    """Compute the lift of two estimates, with the delta method's interval.

    Its two error rates differ for skewed metrics, and it may disagree with the absolute test;
    `fieller` has neither problem. Refusals as in `fieller`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = delta(control, treatment)
        >>> round(lift.low, 4), round(lift.high, 4)
        (0.0381, 0.1619)
    """
    se = estimate_lift_se(control, treatment)
    q = two_sided_quantile(alpha, _estimate_lift_df(control, treatment))
    return _compute_delta_interval(treatment.value - control.value, control.value, se, q)


def estimate_lift_se(control: Estimate, treatment: Estimate) -> float:
    """Return the standard error of the lift by the delta method; may refuse."""
    total = total_variance(control, treatment)
    return _estimate_relative_se(treatment.value - control.value, total, -control.variance, control)


def delta_adjusted(adjusted: Adjusted, alpha: float = 0.05) -> Lift:
    """Compute the lift of an adjusted difference, by the delta method.

    The standard error includes the covariance of the observed control and the adjusted difference.
    Refusals: `control_near_zero`.
    """
    effect, control = adjusted.effect, adjusted.control
    raw = adjusted.treatment.value - control.value
    se = _estimate_relative_se(raw, effect.se * effect.se, adjusted.covariance, control)
    return _compute_delta_interval(
        effect.difference, control.value, se, two_sided_quantile(alpha, effect.df)
    )


def log_delta(control: Estimate, treatment: Estimate, alpha: float = 0.05) -> Lift:
    """Compute the lift, with an interval symmetric in log(treatment / control).

    Refusals: `not_applicable` when the two values differ in sign or one is zero,
    `control_near_zero`, `zero_variance`, `not_finite`.

    Example:
        >>> control, treatment = Estimate(10, 0.04, 100, 99), Estimate(11, 0.05, 100, 99)
        >>> lift = log_delta(control, treatment)
        >>> round(lift.low, 4), round(lift.high, 4)
        (0.0398, 0.1636)
    """
    half = log_se(control, treatment) * two_sided_quantile(
        alpha, _estimate_lift_df(control, treatment)
    )
    ratio = treatment.value / control.value
    # math.exp raises an exception when it overflows; above e^700 the end counts as infinite.
    high = ratio * math.exp(half) if half < 700 else math.inf
    ends = Interval(ratio * math.exp(-half) - 1, high - 1)
    return orient_lift(control.value, ratio - 1, ends, "log_delta")


def log_se(control: Estimate, treatment: Estimate) -> float:
    """Return the standard error of log(treatment / control); refuses as `log_delta`."""
    total_variance(control, treatment)
    if _divide(treatment.value, control.value) <= 0:
        raise Refusal("not_applicable", "a logarithm needs two values of the same sign")
    of_control = math.sqrt(control.variance) / control.value
    return math.hypot(of_control, math.sqrt(treatment.variance) / treatment.value)


def _estimate_welch_df(control: Estimate, treatment: Estimate) -> float:
    return satterthwaite([control.variance, treatment.variance], [control.df, treatment.df])


def _estimate_lift_df(control: Estimate, treatment: Estimate) -> float:
    """Return the degrees of freedom of Var_c·ρ² + Var_t, the lift's variance."""
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


def _estimate_relative_se(
    difference: float, variance: float, covariance: float, control: Estimate
) -> float:
    """Return the standard error of difference / |control|, by the delta method."""
    relative = _divide(difference, control.value)
    spread = variance - 2 * relative * covariance + relative * relative * control.variance
    return abs(_divide(math.sqrt(max(spread, 0.0)), control.value))


def _compute_delta_interval(difference: float, control: float, se: float, q: float) -> Lift:
    relative = _divide(difference, control)
    return orient_lift(control, relative, Interval(relative - q * se, relative + q * se), "delta")


def _compute_fieller_interval(
    difference: float, variance: float, covariance: float, control: Estimate, q: float
) -> Lift:
    """Solve (difference − λ·control)² = q²·Var(difference − λ·control) for λ."""
    relative, scale = _divide(difference, control.value), _divide(q, control.value)
    # In units of the control; g ≥ 1 leaves no ends.
    v, w, g = (x * scale * scale for x in (variance, covariance, control.variance))
    ends = Interval(-math.inf, math.inf)
    if g < 1:
        ends = solve_fieller(relative, v, w, g)
    return orient_lift(control.value, relative, ends, "fieller")


def solve_fieller(relative: float, v: float, w: float, g: float) -> Interval:
    """Solve Fieller's equation in units of the control, for `g` below 1.

    `relative` is the difference, `v` its variance, `w` its covariance with the control and `g` the
    variance of the control, all three times the squared quantile.
    """
    # a λ² − 2b λ + c ≤ 0 between the roots.
    a, b = 1 - g, relative - w
    # b² − a·c without the terms that cancel: v − 2ρw + ρ²g + w² − v·g.
    root = math.sqrt(max(v - 2 * relative * w + relative * relative * g + w * w - v * g, 0.0))
    return Interval((b - root) / a, (b + root) / a)


def orient_lift(control: float, relative: float, ends: Interval, method: str) -> Lift:
    """Divide a relative change by the sign of control."""
    if control < 0:
        relative, ends = -relative, Interval(-ends.high, -ends.low)
    bounded = math.isfinite(ends.low) and math.isfinite(ends.high)
    return Lift(relative, ends.low, ends.high, bounded, method)
