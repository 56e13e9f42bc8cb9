"""Less variance for means and ratios: CUPED, regression, post-stratification."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import effects, means
from abeval.stats.effects import satterthwaite
from abeval.stats.means import gradient, quadratic
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Floats, Refusal


def cuped_mean(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    theta: Sequence[float] | None = None,
) -> Adjusted:
    """Difference in means adjusted by one or several covariates (Deng et al. 2013).

    Y* = Y − θ'(X − X̄), θ = Σxx⁻¹Σxy over both variants together, then Welch.

    Args:
        control: Moments of (y, covariate, …) of the control.
        treatment: Moments of the same variables of the treatment.
        alpha: Error rate of test and interval.
        theta: Coefficients to use instead.

    Raises:
        Refusal: `too_few_units`, `zero_variance`.

    Example:
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> a = cuped_mean(control, treatment)
        >>> round(a.effect.difference, 4), round(a.variance_removed, 4)
        (1.0316, 0.8737)
    """
    return _adjust(control, treatment, _mean_arm, alpha, theta, "welch_t")


def cuped_ratio(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    theta: Sequence[float] | None = None,
) -> Adjusted:
    """Ratio metric adjusted by any covariates, none of them a ratio.

    The metric is linearised (Deng, Knoblich and Lu 2018): θ at the pooled means, variances at each
    variant's own. Arguments and refusals as in `mean`, with moments of (numerator, denominator,
    covariate, …); also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 1, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 1, 2, 1])
        >>> round(cuped_ratio(control, treatment).effect.difference, 4)
        0.0483
    """
    return _adjust(control, treatment, _ratio_with_arm, alpha, theta, "delta_t")


class _Arm(NamedTuple):
    """A metric linearised: value and covariates with their covariance between units."""

    value: float
    covariates: Floats
    covariance: Floats
    n: int
    df: float


def _arm(moments: Moments, rows: list[Floats], value: float, covariates: list[float]) -> _Arm:
    """Covariance of linear combinations of the variables, one per row."""
    jacobian = np.array(rows)
    covariance = jacobian @ moments.covariance @ jacobian.T
    # What rounding leaves of an exactly constant combination must not be divided by.
    varies = [quadratic(row, moments.covariance) > 0 for row in rows]
    covariance *= np.outer(varies, varies)
    return _Arm(value, np.array(covariates), covariance, moments.n, moments.df)


def _mean_arm(moments: Moments) -> _Arm:
    rows = list(np.eye(moments.mean.size))
    return _arm(moments, rows, float(moments.mean[0]), moments.mean[1:].tolist())


def _ratio_with_arm(moments: Moments) -> _Arm:
    m = moments.mean
    rows = [gradient(m, 0, 1), *np.eye(m.size)[2:]]
    return _arm(moments, rows, float(m[0] / m[1]), m[2:].tolist())


def _theta(covariance: Floats) -> tuple[float, ...]:
    """Σxx⁻¹Σxy; a covariate that is constant or a copy of others adds nothing."""
    scale = np.sqrt(np.diag(covariance)[1:])
    scale[scale == 0] = 1.0
    correlation = covariance[1:, 1:] / np.outer(scale, scale)
    inverse = np.linalg.pinv(correlation, rcond=1e-10, hermitian=True)
    return tuple((inverse @ (covariance[1:, 0] / scale) / scale).tolist())


def _adjust(
    control: Moments,
    treatment: Moments,
    arm: Callable[[Moments], _Arm],
    alpha: float,
    theta: Sequence[float] | None,
    method: str,
) -> Adjusted:
    pooled, arms = arm(control + treatment), (arm(control), arm(treatment))
    coefficients = _theta(pooled.covariance) if theta is None else tuple(map(float, theta))
    weights = np.array([1.0, *(-t for t in coefficients)])
    raw = [_estimate(one, weights[:1], pooled) for one in arms]
    unadjusted = effects.compare(raw[0], raw[1], alpha, method)
    effect = effects.compare(
        _estimate(arms[0], weights, pooled), _estimate(arms[1], weights, pooled), alpha, "cuped_t"
    )
    covariance = -float(weights @ arms[0].covariance[0]) / arms[0].n
    removed = variance_removed(effect, unadjusted)
    return Adjusted(effect, unadjusted, coefficients, removed, raw[0], raw[1], covariance)


def _estimate(arm: _Arm, weights: Floats, pooled: _Arm) -> Estimate:
    """The arm with the first weights.size − 1 covariates moved to their pooled values."""
    k = weights.size
    shift = float(weights[1:] @ (arm.covariates - pooled.covariates)[: k - 1])
    variance = quadratic(weights, arm.covariance[:k, :k]) / arm.n
    return Estimate(arm.value + shift, variance, arm.n, arm.df)


def variance_removed(adjusted: Effect, unadjusted: Effect) -> float:
    """Share of the variance of the difference that an adjustment took out.

    Example:
        >>> e = effects.from_difference(1, 2, 1, 1.0)
        >>> variance_removed(e._replace(se=0.5), e)
        0.75
    """
    return 1 - math.pow(adjusted.se / unadjusted.se, 2)


def lin_mean(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator from moments: each variant's prediction at the mean of all covariates.

    The difference is that of Lin (2013): never less efficient than the difference in means in large
    samples, whatever the split. A prediction has the variance of least squares, σ²(1/n + d'C⁻¹d)
    for covariates whose means are d from the centre and whose sums of products are C (Seber and Lee
    2003, section 5.3). The standard error is that of the effect on all units like these: with
    slopes b and covariates' covariance S, it has (b_t − b_c)'S(b_t − b_c)/n more than the residuals
    give, because the mean of the covariates is estimated (Negi and Wooldridge 2021). The degrees of
    freedom are Welch's, one fewer per covariate. `theta` holds the slopes of the control, then the
    treatment's slopes minus the control's.

    Args:
        control: Moments of (y, covariate, …) of the control.
        treatment: Moments of the same variables of the treatment.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`, `zero_variance`.

    Example:
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> round(lin_mean(control, treatment).effect.difference, 4)
        1.0206
    """
    together = control + treatment
    slopes = [_slopes(arm) for arm in (control, treatment)]
    fitted = [
        _fitted(arm, slope, together.mean[1:])
        for arm, slope in zip((control, treatment), slopes, strict=True)
    ]
    # The centre is the mean of a sample: where slopes differ, the effect moves with it.
    spread = together.covariance[1:, 1:] / together.n
    gap = slopes[1] - slopes[0]
    effect = _with_centre(fitted[0], fitted[1], float(gap @ spread @ gap), together.n, alpha)
    unadjusted = means.welch(control, treatment, alpha)
    removed = variance_removed(effect, unadjusted)
    raw = means.estimate_mean(control), means.estimate_mean(treatment)
    # Residuals are uncorrelated with the part of the control's mean that covariates explain.
    covariance = float(gap @ spread @ slopes[0]) - fitted[0].variance
    return Adjusted(
        effect, unadjusted, (*slopes[0].tolist(), *gap.tolist()), removed, *raw, covariance
    )


def _with_centre(
    control: Estimate, treatment: Estimate, centre: float, units: int, alpha: float
) -> Effect:
    """The difference of two fitted values, with the variance that their centre adds."""
    variances = control.variance, treatment.variance, centre
    return effects.from_difference(
        control.value,
        treatment.value,
        treatment.value - control.value,
        math.sqrt(sum(variances)),
        effects.satterthwaite(variances, (control.df, treatment.df, units - 1.0)),
        alpha,
        "lin_t",
    )


def lin_ratio(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator of a ratio, linearised at each variant's own means.

    A unit's linearised ratio is R + (y − R x) / x̄. Its mean is R and its variance that of the
    delta method (Deng, Knoblich and Lu 2018). Arguments and refusals as in `lin_moments`, with
    moments of (numerator, denominator, covariate, …); also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 0, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 0, 2, 1])
        >>> round(lin_ratio(control, treatment).effect.difference, 4)
        0.0544
    """
    arms = _linearised(control), _linearised(treatment)
    unadjusted = means.delta(control, treatment, alpha)
    return lin_mean(arms[0], arms[1], alpha)._replace(unadjusted=unadjusted)


def _linearised(arm: Moments) -> Moments:
    """Moments of (a unit's linearised ratio, covariates)."""
    rows = np.vstack([means.gradient(arm.mean), np.eye(arm.mean.size)[2:]])
    value = float(arm.mean[0] / arm.mean[1])
    mean = np.array([value, *arm.mean[2:]])
    return Moments(arm.n, mean, rows @ arm.comoment @ rows.T, arm.effective)


def _slopes(arm: Moments) -> Floats:
    return np.asarray(_inverse(arm) @ arm.comoment[1:, 0])


def _inverse(arm: Moments) -> Floats:
    """Of the covariates' sums of squares and products within a variant."""
    inverse = np.linalg.pinv(arm.comoment[1:, 1:], rcond=1e-12, hermitian=True)
    return np.asarray(inverse, dtype=np.float64)


def _fitted(arm: Moments, slopes: Floats, centre: Floats) -> Estimate:
    """Value at the centre of the regression of y on the covariates within one variant."""
    df = arm.n - 1 - slopes.size
    if df < 1:
        raise Refusal("too_few_units", f"{arm.n} units for {slopes.size} covariates")
    total = float(arm.comoment[0, 0])
    residual = total - float(slopes @ arm.comoment[1:, 0])
    # The slopes, which carry the mean to the centre, are estimates too.
    away = arm.mean[1:] - centre
    units = 1 / arm.n + float(away @ _inverse(arm) @ away)
    # A smaller residual is an exact fit plus rounding.
    variance = residual / df * units if residual > 1e-13 * total else 0.0
    value = float(arm.mean[0] - slopes @ away)
    return Estimate(value, variance, arm.n, max(arm.df - slopes.size, 1.0))


class PostStratified(NamedTuple):
    """A post-stratified effect and its strata.

    Attributes:
        adjusted: The effect, the effect without strata, and what a relative effect needs.
        shares: Share of each stratum.
        differences: Treatment − control within each stratum.
        variances: Sampling variance of each difference.
    """

    adjusted: Adjusted
    shares: tuple[float, ...]
    differences: tuple[float, ...]
    variances: tuple[float, ...]


def fixed_mean(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    alpha: float = 0.05,
    shares: Sequence[float] | None = None,
) -> PostStratified:
    """Difference in means with the strata's shares taken as known.

    Δ = Σ w_k Δ_k and Var Δ = Σ w_k² v_k, w_k the share of units of both variants
    (Miratrix, Sekhon and Yu 2013; Xie and Aurisset 2016).

    Args:
        control: Moments of the control, one per stratum.
        treatment: Moments of the treatment in the same strata.
        alpha: Error rate of test and interval.
        shares: Shares of the strata, summing to 1; those of both variants' units by default.

    Raises:
        Refusal: `too_few_units` when a stratum has fewer than two units in a variant
            (merge strata then), `zero_variance`.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> p = fixed_mean(control, treatment)
        >>> p.shares, p.differences, p.adjusted.effect.difference
        ((0.5, 0.5), (1.0, 2.0), 1.5)
    """
    return _stratify(
        control, treatment, _MEAN, _checked_shares(control, treatment, shares), alpha, None
    )


def stratified_mean(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> PostStratified:
    """Like `mean`, with shares that are estimated from these units.

    Adds the multinomial variance of the shares, which matters if the effect differs between
    strata.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> fixed = fixed_mean(control, treatment).adjusted.effect.se
        >>> stratified_mean(control, treatment).adjusted.effect.se > fixed
        True
    """
    units = _units(control, treatment)
    return _stratify(
        control, treatment, _MEAN, _checked_shares(control, treatment, None), alpha, units
    )


def fixed_ratio(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    alpha: float = 0.05,
    shares: Sequence[float] | None = None,
) -> PostStratified:
    """Difference of ratios with post-stratified numerators and denominators.

    Arguments and refusals as in `mean`, with variables 0 and 1 the numerator and
    denominator.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> round(fixed_ratio(control, treatment).adjusted.effect.difference, 4)
        0.1707
    """
    return _stratify(
        control, treatment, _RATIO, _checked_shares(control, treatment, shares), alpha, None
    )


def stratified_ratio(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> PostStratified:
    """Like `ratio`, with shares that are estimated from these units.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> fixed = fixed_ratio(control, treatment).adjusted.effect.se
        >>> stratified_ratio(control, treatment).adjusted.effect.se > fixed
        True
    """
    units = _units(control, treatment)
    return _stratify(
        control, treatment, _RATIO, _checked_shares(control, treatment, None), alpha, units
    )


class _Metric(NamedTuple):
    """A smooth function of the means: value, gradient, and its estimate without strata."""

    width: int
    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Floats]
    estimate: Callable[[Moments], Estimate]
    method: str


_MEAN = _Metric(1, lambda m: float(m[0]), np.ones_like, means.estimate_mean, "welch_t")
_RATIO = _Metric(2, lambda m: float(m[0] / m[1]), means.gradient, means.estimate_ratio, "delta_t")


def _units(control: Sequence[Moments], treatment: Sequence[Moments]) -> int:
    return sum(arm.n for arm in (*control, *treatment))


def _checked_shares(
    control: Sequence[Moments], treatment: Sequence[Moments], shares: Sequence[float] | None
) -> Floats:
    """Shares of the strata; both the strata and the shares are checked."""
    if len(control) != len(treatment) or not control:
        raise ValueError("control and treatment need the same strata, at least one")
    for k, arms in enumerate(zip(control, treatment, strict=True)):
        if min(arm.n for arm in arms) < 2:
            raise Refusal("too_few_units", f"stratum {k} has fewer than two units in a variant")
    sizes = [c.n + t.n for c, t in zip(control, treatment, strict=True)]
    weights = np.array(sizes if shares is None else shares, dtype=np.float64)
    if weights.shape != (len(control),) or not (weights >= 0).all():
        raise ValueError("one share per stratum, none negative")
    if shares is not None and not math.isclose(float(weights.sum()), 1.0, rel_tol=1e-9):
        raise ValueError("shares must sum to 1")
    return np.asarray(weights / weights.sum())


def _stratify(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    metric: _Metric,
    shares: Floats,
    alpha: float,
    units: int | None,
) -> PostStratified:
    """`units` is the size of the sample from which shares are estimated, None if known."""
    arms = [_strata(variant, metric, shares) for variant in (control, treatment)]
    slope = arms[1].line - arms[0].line
    shift = _covariance(shares, slope, slope, units)
    dfs = [*arms[0].dfs, *arms[1].dfs, (units or 2) - 1.0]
    effect = _stratified_effect(arms, [*arms[0].terms, *arms[1].terms, shift], dfs, alpha)
    raw = [metric.estimate(functools.reduce(Moments.merge, v)) for v in (control, treatment)]
    unadjusted = effects.compare(raw[0], raw[1], alpha, metric.method)
    below, above = (_value(arm, shares, units, effect.df) for arm in arms)
    covariance = _covariance(shares, slope, arms[0].line, units) - math.fsum(arms[0].terms)
    removed = variance_removed(effect, unadjusted)
    adjusted = Adjusted(effect, unadjusted, (), removed, below, above, covariance)
    pairs = [
        (metric.estimate(c), metric.estimate(t)) for c, t in zip(control, treatment, strict=True)
    ]
    return PostStratified(
        adjusted,
        tuple(shares.tolist()),
        tuple(t.value - c.value for c, t in pairs),
        tuple(t.variance + c.variance for c, t in pairs),
    )


class _Strata(NamedTuple):
    """One variant: its value, each stratum's variance term, and its linearised strata."""

    value: float
    terms: list[float]
    dfs: list[float]
    line: Floats


def _strata(strata: Sequence[Moments], metric: _Metric, shares: Floats) -> _Strata:
    picked = [m.pick(*range(metric.width)) for m in strata]
    means_by_stratum = np.array([m.mean for m in picked])
    centre = shares @ means_by_stratum
    slope = metric.gradient(centre)
    terms = [
        float(w) ** 2 * means.quadratic(slope, m.covariance) / m.n
        for w, m in zip(shares, picked, strict=True)
    ]
    return _Strata(
        metric.value(centre), terms, [m.n - 1.0 for m in picked], means_by_stratum @ slope
    )


def _covariance(shares: Floats, a: Floats, b: Floats, units: int | None) -> float:
    """Covariance of Σ ν_k a_k and Σ ν_k b_k over samples of the shares, zero if known."""
    if units is None:
        return 0.0
    return float(shares @ ((a - shares @ a) * (b - shares @ b))) / units


def _value(arm: _Strata, shares: Floats, units: int | None, df: float) -> Estimate:
    variance = math.fsum(arm.terms) + _covariance(shares, arm.line, arm.line, units)
    return Estimate(arm.value, variance, int(sum(arm.dfs)) + len(arm.dfs), df)


def _stratified_effect(
    arms: Sequence[_Strata], terms: list[float], dfs: list[float], alpha: float
) -> Effect:
    variance = math.fsum(terms)
    if variance == 0:
        raise Refusal("zero_variance", "no stratum varies: no test is possible")
    low, high = arms[0].value, arms[1].value
    df, se = satterthwaite(terms, dfs), math.sqrt(variance)
    return effects.from_difference(low, high, high - low, se, df, alpha, "post_stratified_t")
