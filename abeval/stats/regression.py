"""Regression adjustment of a difference in means, with heteroscedasticity-robust errors.

`inference/adjust.py` hands over the moments of two variants, covariates included, where the
experiment file has `adjust = "regression"`; `ancova` and `lin` are for your own arrays.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects, means, ratios
from abeval.stats.arrays import Bools, Floats, finite
from abeval.stats.cuped import variance_removed
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Refusal

Robust = Literal["HC2", "HC3"]

# A residual sum of squares below this share of the total is an exact fit plus rounding.
_EXACT = 1e-20


def ancova(
    y: ArrayLike,
    treated: ArrayLike,
    *covariates: ArrayLike,
    alpha: float = 0.05,
    robust: Robust = "HC2",
    df: float | None = None,
) -> Adjusted:
    """Coefficient of the treatment in y ~ 1 + treated + covariates.

    Consistent even if the linear model is wrong (Freedman 2008), with the HC2 or HC3 sandwich
    variance (MacKinnon and White 1985). Less efficient than `lin` if the split is uneven and
    the slopes differ.

    Args:
        y: Value per unit, shape (n,).
        treated: Whether the unit is in treatment, shape (n,).
        covariates: Pre-period columns, each of shape (n,).
        alpha: Error rate of test and interval.
        robust: Sandwich variance estimator.
        df: Degrees of freedom; n minus the number of coefficients when omitted, infinite
            for z.

    Raises:
        Refusal: `too_few_units`, `zero_variance`, `not_finite`.

    Example:
        >>> y, x = [9, 11, 13, 15, 10, 13, 14, 17], [9, 10, 13, 16, 10, 11, 14, 15]
        >>> a = ancova(y, [0, 0, 0, 0, 1, 1, 1, 1], x)
        >>> round(a.effect.difference, 4), round(a.effect.se, 4)
        (1.0426, 0.7673)
    """
    data = _read(y, treated, covariates)
    design = np.column_stack([np.ones(data.y.size), data.treated, data.centred])
    return _adjusted(data, design, alpha, robust, df, "ancova")


def lin(
    y: ArrayLike,
    treated: ArrayLike,
    *covariates: ArrayLike,
    alpha: float = 0.05,
    robust: Robust = "HC2",
    df: float | None = None,
) -> Adjusted:
    """Coefficient of the treatment in y ~ treated × (covariates − their means) (Lin 2013).

    Never less efficient than the difference in means in large samples, whatever the split. The
    standard error is for the mean of the covariates of these units, as in other packages;
    `lin_moments`, which an analysis uses, adds what its estimation costs.
    `theta` holds the slopes of the control, then the treatment's slopes minus the control's.

    Arguments and refusals as in `ancova`.

    Example:
        >>> y, x = [9, 11, 13, 15, 10, 13, 14, 17], [9, 10, 13, 16, 10, 11, 14, 15]
        >>> a = lin(y, [0, 0, 0, 0, 1, 1, 1, 1], x)
        >>> round(a.effect.difference, 4), round(a.effect.se, 4)
        (1.0206, 0.7345)
    """
    data = _read(y, treated, covariates)
    crossed = data.treated[:, None] * data.centred
    design = np.column_stack([np.ones(data.y.size), data.treated, data.centred, crossed])
    return _adjusted(data, design, alpha, robust, df, "lin")


def lin_moments(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator from moments: each variant's prediction at the mean of all covariates.

    Same difference as `lin`. A prediction has the variance of least squares, σ²(1/n + d'C⁻¹d) for
    covariates whose means are d from the centre and whose sums of products are C (Seber and Lee
    2003, section 5.3). The standard error is that of the effect on all units like these: with
    slopes b and covariates' covariance S, it has (b_t − b_c)'S(b_t − b_c)/n more than the residuals
    give, because the mean of the covariates is estimated (Negi and Wooldridge 2021). The degrees of
    freedom are Welch's, one fewer per covariate.

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
    unadjusted = ratios.delta(control, treatment, alpha)
    return lin_moments(arms[0], arms[1], alpha)._replace(unadjusted=unadjusted)


def _linearised(arm: Moments) -> Moments:
    """Moments of (a unit's linearised ratio, covariates)."""
    rows = np.vstack([ratios.gradient(arm.mean), np.eye(arm.mean.size)[2:]])
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
    variance = residual / df * units if residual > 1e-13 * total else 0.0
    value = float(arm.mean[0] - slopes @ away)
    return Estimate(value, variance, arm.n, max(arm.df - slopes.size, 1.0))


class _Data(NamedTuple):
    y: Floats
    treated: Bools
    centred: Floats


def _read(y: ArrayLike, treated: ArrayLike, covariates: tuple[ArrayLike, ...]) -> _Data:
    values, mask = finite(y), np.asarray(treated, dtype=bool)
    columns = np.empty((values.size, 0))
    if covariates:
        columns = np.column_stack([finite(covariate) for covariate in covariates])
    if min(int(mask.sum()), int((~mask).sum())) < 2:
        raise Refusal("too_few_units", "each variant needs at least two units")
    return _Data(values, mask, columns - columns.mean(axis=0))


def _adjusted(
    data: _Data, design: Floats, alpha: float, robust: Robust, df: float | None, method: str
) -> Adjusted:
    """Effect, covariances and shares from a design of (1, treated, covariates, …)."""
    control, treatment = Moments.of(data.y[~data.treated]), Moments.of(data.y[data.treated])
    unadjusted = means.welch(control, treatment, alpha)
    fit = _least_squares(data.y, design, robust)
    free = float(data.y.size - fit.rank) if df is None else df
    base, difference, se = float(fit.beta[0]), float(fit.beta[1]), math.sqrt(fit.variance)
    effect = effects.from_difference(
        base, base + difference, difference, se, free, alpha, f"{method}_{robust.lower()}"
    )
    residuals = fit.residuals[~data.treated]
    centred = data.y[~data.treated] - control.mean[0]
    covariance = -float(residuals @ centred) / (control.n * (control.n - 1))
    raw = means.estimate(control), means.estimate(treatment)
    theta, removed = tuple(fit.beta[2:].tolist()), variance_removed(effect, unadjusted)
    return Adjusted(effect, unadjusted, theta, removed, *raw, covariance)


class _Fit(NamedTuple):
    beta: Floats
    variance: float
    residuals: Floats
    rank: int


def _least_squares(y: Floats, design: Floats, robust: Robust) -> _Fit:
    """Least squares and the sandwich variance of coefficient 1, through one thin SVD."""
    u, s, vt = np.linalg.svd(design, full_matrices=False)
    kept = s > s[0] * 1e-12
    u, inverse = u[:, kept], vt[kept].T / s[kept]
    if y.size <= u.shape[1]:
        raise Refusal("too_few_units", f"{y.size} units for {u.shape[1]} coefficients")
    beta = inverse @ (u.T @ y)
    residuals = y - design @ beta
    total = float(np.sum((y - y.mean()) ** 2))
    if float(residuals @ residuals) <= _EXACT * total:
        raise Refusal("zero_variance", "the covariates explain the metric exactly")
    # A unit with leverage 1 has no residual: it carries no information about the noise.
    free = np.maximum(1 - np.einsum("ij,ij->i", u, u), 0.0)
    free[free < 1e-12] = np.inf
    weights = residuals**2 / (free if robust == "HC2" else free**2)
    influence = u @ inverse[1]
    return _Fit(beta, float(np.sum(influence**2 * weights)), residuals, u.shape[1])
