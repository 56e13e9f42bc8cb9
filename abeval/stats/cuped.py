"""CUPED: pre-period covariates take out variance that the treatment cannot have caused.

`inference/adjust.py` hands over the moments of two variants, covariates included, where the
experiment file has `adjust = "cuped"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import effects
from abeval.stats.means import gradient, quadratic
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Floats


def mean(
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
        >>> a = mean(control, treatment)
        >>> round(a.effect.difference, 4), round(a.variance_removed, 4)
        (1.0316, 0.8737)
    """
    return _adjust(control, treatment, _mean_arm, alpha, theta, "welch_t")


def ratio_with(
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
        >>> round(ratio_with(control, treatment).effect.difference, 4)
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
