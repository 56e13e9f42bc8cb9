"""Regression adjustment of a difference in means or ratios, with slopes of each variant.

It works on the moments of two variants, covariates included.
"""

import math

import numpy as np

from abeval.stats import effects, means
from abeval.stats.adjustment import variance_removed
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Floats, Refusal


def lin_moments(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
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
        >>> round(lin_moments(control, treatment).effect.difference, 4)
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
    raw = means.estimate(control), means.estimate(treatment)
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


def lin_ratio_moments(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator of a ratio, linearised at each variant's own means.

    A unit's linearised ratio is R + (y − R x) / x̄. Its mean is R and its variance that of the
    delta method (Deng, Knoblich and Lu 2018). Arguments and refusals as in `lin_moments`, with
    moments of (numerator, denominator, covariate, …); also `zero_denominator`.

    Example:
        >>> control = Moments.of([1, 0, 2, 1], [4, 5, 6, 5], [1, 0, 2, 0])
        >>> treatment = Moments.of([2, 1, 3, 1], [4, 6, 6, 5], [2, 0, 2, 1])
        >>> round(lin_ratio_moments(control, treatment).effect.difference, 4)
        0.0544
    """
    arms = _linearised(control), _linearised(treatment)
    unadjusted = means.delta(control, treatment, alpha)
    return lin_moments(arms[0], arms[1], alpha)._replace(unadjusted=unadjusted)


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
