"""Estimate correlation and slope of true effects that are seen with noise.

The standard errors are known. Nothing is assumed about the distribution of the true effects. Their
variances and covariance are those of the estimates minus those of the noise. Intervals follow from
how much the products of single experiments vary.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats.distributions import compute_p_value, two_sided_quantile
from abeval.stats.records import Floats, Refusal, check_finite
from abeval.stats.shrinkage import FEWEST, fit_spreads

# Values of a coefficient that are tested for its interval.
_ANGLES = 401

_ROUNDING = 1e-12


class Association(NamedTuple):
    """A coefficient of true effects, naive and corrected for noise.

    `p_value` is the two-sided p-value of no association.
    """

    naive: float
    value: float
    low: float
    high: float
    p_value: float


class HeldOut(NamedTuple):
    """Predictions of effects on `y` without their own group, shape (pairs,).

    `without` uses the other groups alone, `predicted` uses `x` too. `precision` is one over the
    variance of an estimate around the mean of the true effects. `gain` is how much `x` reduces the
    squared prediction error, weighted by `precision`; it is unbiased for true effects. `pull` is
    the share of `x` that the prediction takes over; `error` is the squared error of `without` that
    is not noise, weighted alike.
    """

    predicted: Floats
    without: Floats
    precision: Floats
    gain: Floats
    pull: Floats
    error: Floats


class Moments(NamedTuple):
    """Variances and covariance of true effects, or one group's part of them."""

    xx: Floats
    xy: Floats
    yy: Floats


class Fit(NamedTuple):
    """Pairs of effects with errors, and the moments of the true effects.

    `groups` has the number of each pair's experiment, from 0; variants of one experiment are left
    out together. The weights of pairs in means (`weight`) and in moments (`share`) sum to 1. The
    groups' `parts` add up to `total`, which noise can make negative. `least` are the standard
    errors of the variances if there are no true effects: noise alone makes variances of this size.
    `noise` are the covariances of the errors of both metrics.
    """

    x: Floats
    x_se: Floats
    y: Floats
    y_se: Floats
    groups: NDArray[np.intp]
    weight: Floats
    share: Floats
    total: Moments
    parts: Moments
    least: Moments
    noise: Floats

    @property
    def others(self) -> Moments:
        """Return the moments without each group."""
        left = 1 - np.bincount(self.groups, self.share)
        pairs = zip(self.total, self.parts, strict=True)
        return self.positive(Moments._make((total - part) / left for total, part in pairs))

    @property
    def plain(self) -> Moments:
        """Return the moments of all, as far as noise alone does not feign them."""
        return self.positive(self.total)

    def positive(self, moments: Moments) -> Moments:
        """Return moments with variances that are no smaller than noise alone feigns."""
        return Moments._make(map(np.maximum, moments, self.least))


class _Coefficient(NamedTuple):
    """A correlation or slope, and the variance that it multiplies.

    `spreads` tells whether effects on `y` spread more with a higher coefficient.
    """

    value: Floats
    of_x: Floats
    of_y: Floats
    spreads: bool

    def variance(self, moments: Moments) -> Floats:
        """Return the weighted sum of both variances."""
        return self.of_x * moments.xx + self.of_y * moments.yy


def fit(
    x: ArrayLike,
    x_se: ArrayLike,
    y: ArrayLike,
    y_se: ArrayLike,
    groups: ArrayLike | None = None,
    noise: ArrayLike | None = None,
) -> Fit:
    """Estimate variances and covariance of true effects from pairs of estimates.

    Pairs with smaller errors, compared with the spread of the effects, have more weight. Source:
    Fuller (1987), moments of effects with known errors. Refusals: `too_few_units` for fewer than
    `FEWEST` experiments; `zero_variance`; `inconsistent`. Arrays have the shape (pairs,): effects
    on two metrics, with positive standard errors; `groups` has the experiment of each pair; without
    it, each pair is an experiment of its own. `noise` has the covariance of both errors, which the
    same units make; without it, none.

    Example:
        >>> offline = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> online = [0.02, 0.01, 0.00, 0.01, 0.05, -0.04]
        >>> fitted = fit(offline, [0.005] * 6, online, [0.01] * 6)
        >>> round(correlation(fitted).naive, 2), round(correlation(fitted).value, 2)
        (0.89, 0.99)
    """
    x_values, x_errors, y_values, y_errors = map(check_finite, (x, x_se, y, y_se))
    rows = len(x_values)
    codes = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    shared = np.zeros(rows) if noise is None else check_finite(noise)
    columns = x_values, x_errors, y_values, y_errors, shared, codes
    if any(column.shape != (rows,) for column in columns):
        raise Refusal("inconsistent", "both metrics need one effect and error for each experiment")
    if len(np.unique(codes)) < FEWEST:
        got = f"{FEWEST} experiments, got {len(np.unique(codes))}"
        raise Refusal("too_few_units", f"a correlation needs {got}")
    if np.any(x_errors <= 0) or np.any(y_errors <= 0):
        raise Refusal("zero_variance", "every effect needs a positive standard error")
    if not (np.ptp(x_values) and np.ptp(y_values)):
        raise Refusal("zero_variance", "a metric has the same effect in all experiments")
    codes = codes.astype(np.intp)
    of_x = fit_spreads(x_values, x_errors).expected_variance
    of_y = fit_spreads(y_values, y_errors).expected_variance
    weight = 1 / np.sqrt((of_x + x_errors**2) * (of_y + y_errors**2))
    weight /= weight.sum()
    # What a mean of all takes from the square of a pair is given back.
    share = weight * (1 - weight)
    share_sum, share = share.sum(), share / share.sum()
    from_x, from_y = x_values - weight @ x_values, y_values - weight @ y_values
    terms = (
        weight * from_x**2 / share_sum - share * x_errors**2,
        weight * from_x * from_y / share_sum - share * shared,
        weight * from_y**2 / share_sum - share * y_errors**2,
    )
    parts = Moments._make(np.bincount(codes, term) for term in terms)
    total = Moments._make(part.sum() for part in parts)
    x_least, y_least = (np.sqrt(2 * np.sum((share * se**2) ** 2)) for se in (x_errors, y_errors))
    return Fit(
        x=x_values,
        x_se=x_errors,
        y=y_values,
        y_se=y_errors,
        groups=codes,
        weight=weight,
        share=share,
        total=total,
        parts=parts,
        least=Moments(x_least, np.asarray(-np.inf), y_least),
        noise=shared,
    )


def correlation(fitted: Fit, alpha: float = 0.05) -> Association:
    """Estimate the correlation of true effects, with an interval as in `slope`."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, _ANGLES)
    best, low, high, p_value = _test_coefficient(
        fitted, _compute_correlation, angles, np.sin(angles), alpha
    )
    naive = float(np.corrcoef(fitted.x, fitted.y)[0, 1])
    return Association(naive, best, math.sin(low), math.sin(high), p_value)


def slope(fitted: Fit, alpha: float = 0.05) -> Association:
    """Estimate how much the true effect on `y` grows with that on `x`.

    A value is in the interval if the covariance that it leaves unexplained is within its error. The
    error comes from what each experiment leaves unexplained when the others set the value. It is at
    least the error that normal effects would have. The degrees of freedom of its t distribution are
    the effective number of experiments minus one. Zero is in the interval unless a t-test of the
    products of both metrics' effects refutes it too. An end without a bound is infinite. Source:
    Fieller (1954) for ends without a bound; MacKinnon and White (1985), each left out.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> round(slope(fitted).value, 1)
        2.0
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, _ANGLES)[1:-1]
    scale = float(np.sqrt(fitted.plain.yy / fitted.plain.xx))
    best, low, high, p_value = _test_coefficient(
        fitted, _compute_slope, angles, scale * np.tan(angles), alpha
    )
    moved = fitted.x - fitted.x.mean()
    return Association(
        float(moved @ fitted.y / (moved @ moved)),
        best,
        -math.inf if low <= angles[0] else scale * math.tan(low),
        math.inf if high >= angles[-1] else scale * math.tan(high),
        p_value,
    )


def chance_positive(fitted: Fit, x: float, x_se: float) -> float:
    """Return P(true effect on `y` > 0), given a new estimate on `x`.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> round(chance_positive(fitted, 0.02, 0.001), 2)
        1.0
    """
    value, se = predict(fitted, x, x_se)
    return float(special.ndtr(value / se))


def predict(fitted: Fit, x: float, x_se: float) -> tuple[float, float]:
    """Predict the true effect on `y` from a new estimate on `x`.

    Also return the standard error of the prediction.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> round(predict(fitted, 0.02, 0.001)[0], 2)
        0.04
    """
    plain, parts = fitted.plain, fitted.parts
    straight = float(_compute_slope(plain).value)
    between, seen = straight * plain.xx, plain.xx + x_se**2
    # Regression to the mean, by the reliability of the new estimate.
    pull, away = between / seen, x - fitted.weight @ fitted.x
    errors = fitted.y_se**2 + (pull * fitted.x_se) ** 2 - 2 * pull * fitted.noise
    unsure = np.sum((parts.xy - straight * parts.xx) ** 2) / seen**2
    spread = plain.yy - pull * between
    middle = plain.yy + pull**2 * plain.xx - 2 * pull * between
    variance = spread + away**2 * unsure + np.sum(fitted.weight**2 * (middle + errors))
    return float(fitted.weight @ fitted.y + pull * away), float(np.sqrt(variance))


def widen(fitted: Fit, se: float) -> float:
    """Widen a prediction's standard error by what is not known of the spread.

    The standard error is at least what predictions of experiments left out miss, and noise may hide
    as much of the spread as it feigns.
    """
    held = held_out(fitted)
    missed = (fitted.y - held.predicted) ** 2 - fitted.y_se**2 + 2 * held.pull * fitted.noise
    return math.sqrt(max(se**2, float(fitted.weight @ missed)) + float(fitted.least.yy))


def held_out(fitted: Fit) -> HeldOut:
    """Predict each experiment's effects on `y` from the other experiments.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> bool(held_out(fitted).gain.mean() > 0)
        True
    """
    precision: Floats = 1 / (fit_spreads(fitted.y, fitted.y_se).expected_variance + fitted.y_se**2)
    others = fitted.others
    between = (_compute_slope(others).value * others.xx)[fitted.groups]
    pull = between / (others.xx[fitted.groups] + fitted.x_se**2)
    without = _mean_of_others(fitted, precision, fitted.y)
    predicted = without + pull * (fitted.x - _mean_of_others(fitted, precision, fitted.x))
    # Noise of `y` that is in `x` too makes the prediction look closer than it is.
    closer = (fitted.y - without) ** 2 - (fitted.y - predicted) ** 2 - 2 * pull * fitted.noise
    # The noise of `y` itself no prediction can remove.
    error = precision * ((fitted.y - without) ** 2 - fitted.y_se**2)
    return HeldOut(predicted, without, precision, precision * closer, pull, error)


def _mean_of_others(fitted: Fit, weight: Floats, values: Floats) -> Floats:
    """Return the weighted mean of each pair's values without its group."""
    sums = (np.bincount(fitted.groups, part) for part in (weight * values, weight))
    above, below = (part.sum() - part for part in sums)
    means: Floats = (above / below)[fitted.groups]
    return means


def _compute_correlation(moments: Moments) -> _Coefficient:
    ratio = np.sqrt(moments.yy / moments.xx)
    value = np.clip(moments.xy / np.sqrt(moments.xx * moments.yy), -1, 1)
    return _Coefficient(value, ratio / 2, 1 / (2 * ratio), spreads=False)


def _compute_slope(moments: Moments) -> _Coefficient:
    steepest = np.sqrt(moments.yy / moments.xx)
    value = np.clip(moments.xy / moments.xx, -steepest, steepest)
    return _Coefficient(value, np.ones_like(value), np.zeros_like(value), spreads=True)


def _test_coefficient(
    fitted: Fit,
    coefficient: Callable[[Moments], _Coefficient],
    angles: Floats,
    values: Floats,
    alpha: float,
) -> tuple[float, float, float, float]:
    """Estimate a coefficient, with its interval in angles and its p-value."""
    plain, parts = fitted.plain, fitted.parts
    estimate, left_out = coefficient(plain), coefficient(fitted.others)
    single = parts.xy - left_out.value * left_out.variance(parts)
    squares = np.sum(single**2)
    carrying = float(len(single))
    if squares > 0:
        carrying = min(np.pi / 2 * np.sum(np.abs(single)) ** 2 / squares, carrying)
    at = np.concatenate([values, [estimate.value, 0.0]])
    expected = _estimate_normal_variance(fitted, estimate, at)
    error = np.sqrt(expected * max(1.0, squares / expected[-2]))
    # A variance that noise hides is neither a reason to refute high values nor low ones.
    left = fitted.total.xy - np.outer(
        [estimate.variance(fitted.total), estimate.variance(plain)], at
    )
    reach = two_sided_quantile(alpha, carrying - 1) * error
    low = _find_crossing(angles, (left.min(0) - reach)[:-2])
    high = -_find_crossing(-angles[::-1], (-left.max(0) - reach)[-3::-1])
    p_value = compute_p_value(float(left[0, -1] / error[-1]), carrying - 1)
    # Of no association the products of single experiments are a sample, whatever their shape.
    products = parts.xy - fitted.total.xy * np.bincount(fitted.groups, fitted.share)
    sampled = np.sum(products**2) * len(single) / (len(single) - 1)
    alone = fitted.total.xy / np.sqrt(max(sampled, expected[-1]))
    p_value = max(p_value, compute_p_value(float(alone), len(single) - 1))
    if p_value > alpha:
        low, high = min(low, 0.0), max(high, 0.0)
    return float(estimate.value), low, high, p_value


def _estimate_normal_variance(fitted: Fit, coefficient: _Coefficient, values: Floats) -> Floats:
    """Return the variance of the unexplained covariance, for normal effects."""
    plain = fitted.plain
    # Covariance of the estimates: of true effects, and of noise that both share.
    between = (values * coefficient.variance(plain))[:, None] + fitted.noise
    steeper = (
        np.maximum(values**2 - coefficient.value**2, 0.0)[:, None] if coefficient.spreads else 0.0
    )
    a = plain.xx + fitted.x_se**2
    b = plain.yy + steeper * plain.xx + fitted.y_se**2
    of_x, of_y = (values * coefficient.of_x)[:, None], (values * coefficient.of_y)[:, None]
    turned = a * of_x, b * of_y
    squares = 2 * turned[0] ** 2 + 2 * turned[1] ** 2 - 4 * between * (turned[0] + turned[1])
    each = a * b + between**2 * (1 + 4 * of_x * of_y) + squares
    # Nothing is left of effects that are one line without noise, but for rounding.
    variances: Floats = np.sum(np.maximum(each, _ROUNDING * a * b) * fitted.share**2, axis=1)
    return variances


def _find_crossing(at: Floats, curve: Floats) -> float:
    """Return where a curve first falls below zero, or an end of its range."""
    above = int(np.argmin(np.append(curve, -1.0) > 0))
    if above in (0, len(at)):
        return float(at[min(above, len(at) - 1)])
    before, after = curve[above - 1 : above + 1]
    return float(at[above - 1] + (at[above] - at[above - 1]) * before / (before - after))
