"""Regression adjustment of a difference in means, with standard errors robust to its misfit."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects, means, ratios
from abeval.stats.cuped import variance_removed
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Estimate, Refusal

Robust = Literal["HC2", "HC3"]

# A residual sum of squares below this share of the total is rounding of an exact fit.
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

    Consistent whether or not the line is right (Freedman 2008), with the HC2 or HC3
    sandwich (MacKinnon and White 1985). Less efficient than `lin` where the split is
    uneven and the slopes differ.

    Args:
        y: Value per unit, shape (n,).
        treated: Whether the unit is in treatment, shape (n,).
        covariates: Pre-period columns, each of shape (n,).
        alpha: Error rate of test and interval.
        robust: Sandwich.
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
    return _adjusted(data, design, slice(2, None), alpha, robust, df, "ancova")


def lin(
    y: ArrayLike,
    treated: ArrayLike,
    *covariates: ArrayLike,
    alpha: float = 0.05,
    robust: Robust = "HC2",
    df: float | None = None,
) -> Adjusted:
    """Coefficient of the treatment in y ~ treated × (covariates − their means) (Lin 2013).

    Never less efficient than the difference in means in large samples, whatever the split.
    `theta` holds the slopes of the control, then how much those of the treatment differ.

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
    return _adjusted(data, design, slice(2, None), alpha, robust, df, "lin")


def lin_moments(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator on moments alone, each variant's residual variance over its units.

    Same difference as `lin`; the standard error has no leverage in it, which needs rows,
    and the degrees of freedom of Welch with one fewer per covariate instead.

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
    centre = (control + treatment).mean[1:]
    slopes = [_slopes(arm) for arm in (control, treatment)]
    fitted = [
        _fitted(arm, slope, centre) for arm, slope in zip((control, treatment), slopes, strict=True)
    ]
    effect = effects.compare(fitted[0], fitted[1], alpha, "lin_t")
    unadjusted = means.welch(control, treatment, alpha)
    removed = variance_removed(effect, unadjusted)
    raw = means.estimate(control), means.estimate(treatment)
    theta = (*slopes[0].tolist(), *(slopes[1] - slopes[0]).tolist())
    # Residuals are uncorrelated with what the covariates explain of the control's mean.
    return Adjusted(effect, unadjusted, theta, removed, *raw, -fitted[0].variance)


def lin_ratio_moments(control: Moments, treatment: Moments, alpha: float = 0.05) -> Adjusted:
    """Lin's estimator of a ratio, linearised at each variant's own means.

    A unit's ratio is R + (y − R x) / x̄, whose mean is R and whose variance is that of the delta
    method (Deng, Knoblich and Lu 2018); the rest is `lin_moments`.

    Args:
        control: Moments of (numerator, denominator, covariate, …) of the control.
        treatment: Moments of the same variables of the treatment.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.

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
    return Moments(arm.n, np.array([value, *arm.mean[2:]]), rows @ arm.comoment @ rows.T)


def _slopes(arm: Moments) -> NDArray[np.float64]:
    inverse = np.linalg.pinv(arm.comoment[1:, 1:], rcond=1e-12, hermitian=True)
    return np.asarray(inverse @ arm.comoment[1:, 0])


def _fitted(arm: Moments, slopes: NDArray[np.float64], centre: NDArray[np.float64]) -> Estimate:
    """Regression of y on the covariates within one variant, read at the centre."""
    df = arm.n - 1 - slopes.size
    if df < 1:
        raise Refusal("too_few_units", f"{arm.n} units for {slopes.size} covariates")
    total = float(arm.comoment[0, 0])
    left = total - float(slopes @ arm.comoment[1:, 0])
    variance = left / df / arm.n if left > 1e-13 * total else 0.0
    value = float(arm.mean[0] - slopes @ (arm.mean[1:] - centre))
    return Estimate(value, variance, arm.n, float(df))


class _Data(NamedTuple):
    y: NDArray[np.float64]
    treated: NDArray[np.bool_]
    centred: NDArray[np.float64]


def _read(y: ArrayLike, treated: ArrayLike, covariates: tuple[ArrayLike, ...]) -> _Data:
    values, mask = np.asarray(y, dtype=np.float64), np.asarray(treated, dtype=bool)
    columns = np.empty((values.size, 0))
    if covariates:
        columns = np.column_stack([np.asarray(c, dtype=np.float64) for c in covariates])
    if not (np.isfinite(values).all() and np.isfinite(columns).all()):
        raise Refusal("not_finite", "an infinite or missing value; drop it or fill it first")
    if min(int(mask.sum()), int((~mask).sum())) < 2:
        raise Refusal("too_few_units", "each variant needs at least two units")
    return _Data(values, mask, columns - columns.mean(axis=0))


def _adjusted(
    data: _Data,
    design: NDArray[np.float64],
    slopes: slice,
    alpha: float,
    robust: Robust,
    df: float | None,
    method: str,
) -> Adjusted:
    control, treatment = Moments.of(data.y[~data.treated]), Moments.of(data.y[data.treated])
    unadjusted = means.welch(control, treatment, alpha)
    fit = _least_squares(data.y, design, robust)
    free = float(data.y.size - fit.rank) if df is None else df
    base, difference, se = float(fit.beta[0]), float(fit.beta[1]), math.sqrt(fit.variance)
    effect = effects.from_difference(
        base, base + difference, difference, se, free, alpha, f"{method}_{robust.lower()}"
    )
    theta = tuple(fit.beta[slopes].tolist())
    removed = variance_removed(effect, unadjusted)
    residual = fit.residuals[~data.treated]
    moved = data.y[~data.treated] - control.mean[0]
    covariance = -float(residual @ moved) / (control.n * (control.n - 1))
    raw = means.estimate(control), means.estimate(treatment)
    return Adjusted(effect, unadjusted, theta, removed, *raw, covariance)


class _Fit(NamedTuple):
    beta: NDArray[np.float64]
    variance: float
    residuals: NDArray[np.float64]
    rank: int


def _least_squares(y: NDArray[np.float64], design: NDArray[np.float64], robust: Robust) -> _Fit:
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
    # A unit that fixes its own fit has leverage 1 and no residual: it says nothing of noise.
    free = np.maximum(1 - np.einsum("ij,ij->i", u, u), 0.0)
    free[free < 1e-12] = np.inf
    weights = residuals**2 / (free if robust == "HC2" else free**2)
    influence = u @ inverse[1]
    return _Fit(beta, float(np.sum(influence**2 * weights)), residuals, u.shape[1])
