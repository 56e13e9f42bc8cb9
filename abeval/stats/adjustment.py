"""Reduce variance of means and ratios: CUPED, regression, post-stratification."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import effects, means
from abeval.stats.effects import satterthwaite
from abeval.stats.means import compute_quadratic_form
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Floats, Refusal


def cuped_mean(
    control: Moments, treatment: Moments, alpha: float = 0.05, theta: Sequence[float] | None = None
) -> Adjusted:
    """Adjust a difference in means by covariates (CUPED, Deng et al. 2013).

    Y* = Y − θ'(X − X̄), θ = Σxx⁻¹Σxy over both variants together, then Welch. Moments are of (y,
    covariate, …); `theta` are coefficients to use instead. Refusals: `too_few_units`,
    `zero_variance`.

    Example:
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> a = cuped_mean(control, treatment)
        >>> round(a.effect.difference, 4), round(a.variance_removed, 4)
        (1.0316, 0.8737)
    """
    return _adjust_by_cuped(control + treatment, (control, treatment), alpha, theta)


def cuped_ratio(
    control: Moments, treatment: Moments, alpha: float = 0.05, theta: Sequence[float] | None = None
) -> Adjusted:
    """Adjust a difference in ratios by covariates that are no ratios (CUPED).

    The metric is linearised (Deng, Knoblich and Lu 2018): θ at the pooled means, variances at each
    variant's own means. Arguments and refusals as in `cuped_mean`, with moments of (numerator,
    denominator, covariate, …); also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 1, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 1, 2, 1])
        >>> round(cuped_ratio(control, treatment).effect.difference, 4)
        0.0483
    """
    every = control + treatment, *map(means.correct_leverage, (control, treatment))
    pooled, *arms = map(means.linearise_ratio, every)
    return _adjust_by_cuped(pooled, arms, alpha, theta)


def _solve_theta(covariance: Floats) -> tuple[float, ...]:
    """Return Σxx⁻¹Σxy; a covariate that is constant or a copy of others adds nothing."""
    scale = np.sqrt(np.diag(covariance)[1:])
    scale[scale == 0] = 1.0
    correlation = covariance[1:, 1:] / np.outer(scale, scale)
    inverse = np.linalg.pinv(correlation, rcond=1e-10, hermitian=True)
    return tuple((inverse @ (covariance[1:, 0] / scale) / scale).tolist())


def _adjust_by_cuped(
    pooled: Moments, arms: Sequence[Moments], alpha: float, theta: Sequence[float] | None
) -> Adjusted:
    coefficients = _solve_theta(pooled.covariance) if theta is None else tuple(map(float, theta))
    weights = np.array([1.0, *(-t for t in coefficients)])
    control, treatment = (_estimate(arm, weights[:1], pooled) for arm in arms)
    below, above = (_estimate(arm, weights, pooled) for arm in arms)
    effect = effects.compare(below, above, alpha, "cuped_t")
    covariance = -float(weights @ arms[0].covariance[0]) / arms[0].n
    removed = _measure_variance_reduction(effect, control, treatment)
    return Adjusted(effect, coefficients, removed, control, treatment, covariance)


def _estimate(arm: Moments, weights: Floats, pooled: Moments) -> Estimate:
    """Move the first weights.size − 1 covariates of a variant to their pooled values."""
    k = weights.size
    shift = float(weights[1:] @ (arm.mean - pooled.mean)[1:k])
    variance = compute_quadratic_form(weights, arm.covariance[:k, :k]) / arm.n
    return Estimate(float(arm.mean[0]) + shift, variance, arm.n, arm.df)


def _measure_variance_reduction(adjusted: Effect, control: Estimate, treatment: Estimate) -> float:
    """Return the share of a difference's variance that an adjustment removed.

    Refusals: As `effects.total_variance`.
    """
    return 1 - math.pow(adjusted.se / math.sqrt(effects.total_variance(control, treatment)), 2)


def lin_mean(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Compare each variant's prediction at the mean of all covariates (Lin 2013).

    In large samples it is never less efficient than the difference in means, whatever the split. A
    prediction has the variance of least squares, σ²(1/n + d'C⁻¹d) for covariates whose means are d
    from the centre and whose sums of products are C (Seber and Lee 2003, section 5.3). With slopes
    b and covariates' covariance S, the mean of the covariates, which is estimated, adds (b_t −
    b_c)'S(b_t − b_c)/n (Negi and Wooldridge 2021). The degrees of freedom are Welch's, one fewer
    per covariate. `theta` holds the slopes of the control, then the treatment's minus those.
    Arguments and refusals as in `cuped_mean`.

    Example:
        >>> control = Moments.of([9, 11, 13, 15], [9, 10, 13, 16])
        >>> treatment = Moments.of([10, 13, 14, 17], [10, 11, 14, 15])
        >>> round(lin_mean(control, treatment).effect.difference, 4)
        1.0206
    """
    return _adjust_by_lin((control, treatment), (control, treatment), alpha)


def _adjust_by_lin(arms: Sequence[Moments], spreads: Sequence[Moments], alpha: float) -> Adjusted:
    """Compare means of variable 0; `spreads` has the unexplained co-moments."""
    together = arms[0] + arms[1]
    inverses = [
        np.asarray(np.linalg.pinv(arm.comoment[1:, 1:], rcond=1e-12, hermitian=True), np.float64)
        for arm in arms
    ]
    slopes = [inverse @ arm.comoment[1:, 0] for inverse, arm in zip(inverses, arms, strict=True)]
    fitted = [
        _fit_at_centre(*terms, together.mean[1:])
        for terms in zip(spreads, inverses, slopes, strict=True)
    ]
    # The centre is the mean of a sample: where slopes differ, the effect moves with it.
    spread = together.covariance[1:, 1:] / together.n
    gap = slopes[1] - slopes[0]
    variances = fitted[0].variance, fitted[1].variance, float(gap @ spread @ gap)
    df = satterthwaite(variances, (fitted[0].df, fitted[1].df, together.n - 1.0))
    low, high, se = fitted[0].value, fitted[1].value, math.sqrt(sum(variances))
    effect = effects.effect_from_difference(low, high, high - low, se, df, alpha, "lin_t")
    # Residuals are uncorrelated with the part of the control's mean that covariates explain.
    covariance = float(gap @ spread @ slopes[0]) - fitted[0].variance
    raw = means.estimate_mean(spreads[0]), means.estimate_mean(spreads[1])
    theta, removed = (*slopes[0].tolist(), *gap.tolist()), _measure_variance_reduction(effect, *raw)
    return Adjusted(effect, theta, removed, *raw, covariance)


def lin_ratio(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Compare ratios as `lin_mean` compares means.

    Ratios are linearised at each variant's own means. A unit's linearised ratio R + (y − R x) / x̄
    has the mean R and the variance of the delta method (Deng, Knoblich and Lu 2018). Refuses as
    `lin_mean`; also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 0, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 0, 2, 1])
        >>> round(lin_ratio(control, treatment).effect.difference, 4)
        0.0544
    """
    arms = control, treatment
    linear = [means.linearise_ratio(arm) for arm in arms]
    spreads = [means.linearise_ratio(means.correct_leverage(arm)) for arm in arms]
    return _adjust_by_lin(linear, spreads, alpha)


def _fit_at_centre(arm: Moments, inverse: Floats, slopes: Floats, centre: Floats) -> Estimate:
    """Predict y at the centre, by regression on the covariates of one variant.

    `inverse` is the inverse of the covariates' sums of squares and products.
    """
    df = arm.n - 1 - slopes.size
    if df < 1:
        raise Refusal("too_few_units", f"{arm.n} units for {slopes.size} covariates")
    residual = compute_quadratic_form(np.array([1.0, *-slopes]), arm.comoment)
    # The slopes, which carry the mean to the centre, are estimates too.
    away = arm.mean[1:] - centre
    units = 1 / arm.n + float(away @ inverse @ away)
    value = float(arm.mean[0] - slopes @ away)
    return Estimate(value, residual / df * units, arm.n, max(arm.df - slopes.size, 1.0))


def stratified_mean(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> Adjusted:
    """Compare means within strata, combined by the strata's shares of these units.

    Δ = Σ w_k Δ_k and Var Δ = Σ w_k² v_k, w_k the share of units of both variants (Miratrix, Sekhon
    and Yu 2013; Xie and Aurisset 2016), and the multinomial variance of the shares, which matters
    if the effect differs between strata. Moments are one per stratum, the same strata in both
    variants. Refusals: `too_few_units` when a stratum has fewer than two units in a variant (merge
    strata then), `zero_variance`.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> stratified_mean(control, treatment).effect.difference
        1.5
    """
    return _stratify(control, treatment, means.estimate_mean, alpha)


def stratified_ratio(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> Adjusted:
    """Compare ratios of post-stratified numerators and denominators.

    Arguments and refusals as in `stratified_mean`, with variables 0 and 1 the numerator and
    denominator; also `zero_denominator`.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> round(stratified_ratio(control, treatment).effect.difference, 4)
        0.1707
    """
    return _stratify(control, treatment, means.estimate_ratio, alpha)


def _stratify(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    estimate: Callable[[Moments], Estimate],
    alpha: float,
) -> Adjusted:
    """Compare means or ratios over strata; `estimate` estimates them without strata."""
    sizes = _count_stratum_units(control, treatment)
    units = int(sizes.sum())
    shares = sizes / units

    def share_covariance(a: Floats, b: Floats) -> float:
        """Return the covariance of Σ ν_k a_k and Σ ν_k b_k over sampled shares."""
        return float(shares @ ((a - shares @ a) * (b - shares @ b))) / units

    is_ratio = estimate is means.estimate_ratio
    low, high = (_combine_strata(variant, shares, is_ratio) for variant in (control, treatment))
    gap = high.line - low.line
    terms = [*low.terms, *high.terms, share_covariance(gap, gap)]
    if not any(terms):
        raise Refusal("zero_variance", "no stratum varies: no test is possible")
    df = satterthwaite(terms, [*low.dfs, *high.dfs, units - 1.0])
    values, se = (low.value, high.value, high.value - low.value), math.sqrt(math.fsum(terms))
    effect = effects.effect_from_difference(*values, se, df, alpha, "post_stratified_t")
    wholes = [functools.reduce(Moments.merge, variant) for variant in (control, treatment)]
    below, above = (
        Estimate(
            arm.value, math.fsum(arm.terms) + share_covariance(arm.line, arm.line), pooled.n, df
        )
        for arm, pooled in zip((low, high), wholes, strict=True)
    )
    covariance = share_covariance(gap, low.line) - math.fsum(low.terms)
    removed = _measure_variance_reduction(effect, *map(estimate, wholes))
    return Adjusted(effect, (), removed, below, above, covariance)


def _count_stratum_units(control: Sequence[Moments], treatment: Sequence[Moments]) -> Floats:
    """Return the units of each stratum."""
    if len(control) != len(treatment) or not control:
        raise ValueError("control and treatment need the same strata, at least one")
    for k, arms in enumerate(zip(control, treatment, strict=True)):
        if min(arm.n for arm in arms) < 2:
            raise Refusal("too_few_units", f"stratum {k} has fewer than two units in a variant")
    return np.array([c.n + t.n for c, t in zip(control, treatment, strict=True)], dtype=np.float64)


class _Strata(NamedTuple):
    """One variant: its value, its strata's variance terms, and linearised strata."""

    value: float
    terms: list[float]
    dfs: list[float]
    line: Floats


def _combine_strata(strata: Sequence[Moments], shares: Floats, is_ratio: bool) -> _Strata:
    terms = (0, 1) if is_ratio else (0,)
    picked = [stratum.pick(*terms) for stratum in strata]
    centre, slope, corrected = means.centre_strata(picked, shares.tolist(), is_ratio)
    value = float(centre[0] / centre[1]) if is_ratio else float(centre[0])
    variances = [
        share**2 * compute_quadratic_form(slope, stratum.covariance) / stratum.n
        for share, stratum in zip(shares.tolist(), corrected, strict=True)
    ]
    line = np.array([stratum.mean @ slope for stratum in picked])
    return _Strata(value, variances, [stratum.df for stratum in corrected], line)
