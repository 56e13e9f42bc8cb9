"""Less variance for means and ratios: CUPED, regression, post-stratification."""

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
    """Adjust a difference in means by one or several covariates (Deng et al. 2013).

    Y* = Y − θ'(X − X̄), θ = Σxx⁻¹Σxy over both variants together, then Welch.

    Args:
        control: Moments of (y, covariate, …) of the control.
        treatment: Moments of the same variables of the treatment.
        theta: Coefficients to use instead.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`, `zero_variance`.

    Example:
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> a = cuped_mean(control, treatment)
        >>> round(a.effect.difference, 4), round(a.variance_removed, 4)
        (1.0316, 0.8737)
    """
    return _cuped(control, treatment, _mean_arm, alpha, theta, "welch_t")


def cuped_ratio(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    theta: Sequence[float] | None = None,
) -> Adjusted:
    """Adjust a difference of ratios by any covariates, none of them a ratio.

    The metric is linearised (Deng, Knoblich and Lu 2018): θ at the pooled means, variances at each
    variant's own. Arguments and refusals as in `cuped_mean`, with moments of (numerator,
    denominator, covariate, …); also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 1, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 1, 2, 1])
        >>> round(cuped_ratio(control, treatment).effect.difference, 4)
        0.0483
    """
    return _cuped(control, treatment, _ratio_arm, alpha, theta, "delta_t")


class _Arm(NamedTuple):
    """A metric linearised: value and covariates with their covariance between units."""

    value: float
    covariates: Floats
    covariance: Floats
    n: int
    df: float


def _arm(moments: Moments, rows: list[Floats], value: float, covariates: list[float]) -> _Arm:
    jacobian = np.array(rows)
    covariance = jacobian @ moments.covariance @ jacobian.T
    # What rounding leaves of an exactly constant combination must not be divided by.
    varies = [quadratic(row, moments.covariance) > 0 for row in rows]
    covariance *= np.outer(varies, varies)
    return _Arm(value, np.array(covariates), covariance, moments.n, moments.df)


def _mean_arm(moments: Moments) -> _Arm:
    rows = list(np.eye(moments.mean.size))
    return _arm(moments, rows, float(moments.mean[0]), moments.mean[1:].tolist())


def _ratio_arm(moments: Moments) -> _Arm:
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


def _cuped(
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
    """Return the share of the variance of the difference that an adjustment took out.

    Example:
        >>> e = effects.from_difference(1, 2, 1, 1.0)
        >>> variance_removed(e._replace(se=0.5), e)
        0.75
    """
    return 1 - math.pow(adjusted.se / unadjusted.se, 2)


def lin_mean(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Compare each variant's prediction at the mean of all covariates (Lin 2013).

    Never less efficient than the difference in means in large samples, whatever the split. A
    prediction has the variance of least squares, σ²(1/n + d'C⁻¹d) for covariates whose means are d
    from the centre and whose sums of products are C (Seber and Lee 2003, section 5.3). The standard
    error is that of the effect on all units like these: with slopes b and covariates' covariance S,
    it adds (b_t − b_c)'S(b_t − b_c)/n to what the residuals give, because the mean of the
    covariates is estimated (Negi and Wooldridge 2021). The degrees of freedom are Welch's, one
    fewer per covariate. `theta` holds the slopes of the control, then the treatment's slopes minus
    the control's.

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
    """Compare ratios as `lin_mean` does means, linearised at each variant's own means.

    A unit's linearised ratio is R + (y − R x) / x̄. Its mean is R and its variance that of the
    delta method (Deng, Knoblich and Lu 2018). Arguments and refusals as in `lin_mean`, with
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


def stratified_mean(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> Adjusted:
    """Compare means within strata, combined by the strata's shares of these units.

    Δ = Σ w_k Δ_k and Var Δ = Σ w_k² v_k, w_k the share of units of both variants (Miratrix, Sekhon
    and Yu 2013; Xie and Aurisset 2016), and the multinomial variance of the shares, which matters
    if the effect differs between strata.

    Args:
        control: Moments of the control, one per stratum.
        treatment: Moments of the treatment in the same strata.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units` when a stratum has fewer than two units in a variant
            (merge strata then), `zero_variance`.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> stratified_mean(control, treatment).effect.difference
        1.5
    """
    return _stratify(control, treatment, _MEAN, alpha)


def stratified_ratio(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> Adjusted:
    """Compare ratios of post-stratified numerators and denominators.

    Arguments and refusals as in `stratified_mean`, with variables 0 and 1 the numerator and
    denominator.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> round(stratified_ratio(control, treatment).effect.difference, 4)
        0.1707
    """
    return _stratify(control, treatment, _RATIO, alpha)


class _Metric(NamedTuple):
    """A smooth function of the means: value, gradient, and its estimate without strata."""

    width: int
    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Floats]
    estimate: Callable[[Moments], Estimate]
    method: str


_MEAN = _Metric(1, lambda m: float(m[0]), np.ones_like, means.estimate_mean, "welch_t")
_RATIO = _Metric(2, lambda m: float(m[0] / m[1]), gradient, means.estimate_ratio, "delta_t")


def _stratify(
    control: Sequence[Moments], treatment: Sequence[Moments], metric: _Metric, alpha: float
) -> Adjusted:
    shares, units = _shares(control, treatment)
    arms = [_strata(variant, metric, shares) for variant in (control, treatment)]

    def of_shares(a: Floats, b: Floats) -> float:
        """Return covariance of Σ ν_k a_k and Σ ν_k b_k over samples of the shares."""
        return float(shares @ ((a - shares @ a) * (b - shares @ b))) / units

    gap = arms[1].line - arms[0].line
    terms = [*arms[0].terms, *arms[1].terms, of_shares(gap, gap)]
    if not any(terms):
        raise Refusal("zero_variance", "no stratum varies: no test is possible")
    df = satterthwaite(terms, [*arms[0].dfs, *arms[1].dfs, units - 1.0])
    low, high = arms[0].value, arms[1].value
    se = math.sqrt(math.fsum(terms))
    effect = effects.from_difference(low, high, high - low, se, df, alpha, "post_stratified_t")
    raw = [metric.estimate(functools.reduce(Moments.merge, v)) for v in (control, treatment)]
    unadjusted = effects.compare(raw[0], raw[1], alpha, metric.method)
    below, above = (
        Estimate(
            arm.value,
            math.fsum(arm.terms) + of_shares(arm.line, arm.line),
            sum(m.n for m in variant),
            df,
        )
        for arm, variant in zip(arms, (control, treatment), strict=True)
    )
    covariance = of_shares(gap, arms[0].line) - math.fsum(arms[0].terms)
    removed = variance_removed(effect, unadjusted)
    return Adjusted(effect, unadjusted, (), removed, below, above, covariance)


def _shares(control: Sequence[Moments], treatment: Sequence[Moments]) -> tuple[Floats, int]:
    """Share of each stratum in the units, and the units."""
    if len(control) != len(treatment) or not control:
        raise ValueError("control and treatment need the same strata, at least one")
    for k, arms in enumerate(zip(control, treatment, strict=True)):
        if min(arm.n for arm in arms) < 2:
            raise Refusal("too_few_units", f"stratum {k} has fewer than two units in a variant")
    sizes = np.array([c.n + t.n for c, t in zip(control, treatment, strict=True)], dtype=np.float64)
    return sizes / sizes.sum(), int(sizes.sum())


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
        float(w) ** 2 * quadratic(slope, m.covariance) / m.n
        for w, m in zip(shares, picked, strict=True)
    ]
    return _Strata(
        metric.value(centre), terms, [m.n - 1.0 for m in picked], means_by_stratum @ slope
    )
