"""How true effects on two metrics go together, when both are seen with noise.

True effects of experiments on two metrics are bivariate normal; each is seen with an error of known
size, and of known covariance where the same units are behind both. The plain correlation of the
estimates is too small by the noise, or too large by what the errors share; this one is of the true
effects.

`history/` hands over offline and online effects, or early and late ones. `held_out` is what chooses
between several predictors.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.arrays import Floats
from abeval.stats.distributions import check_alpha, quantile
from abeval.stats.latent_normal import (
    CORRELATIONS,
    SPREADS,
    Nodes,
    Pairs,
    chosen,
    grid_of,
    new_effect,
    pairs_of,
    pull_of,
    restricted,
    sums_of,
    widths,
)
from abeval.stats.shrinkage import spreads


class Association(NamedTuple):
    """A coefficient of true effects.

    Attributes:
        naive: The same of the estimates as they are.
        value: Corrected for noise.
        low: Lower end of its interval.
        high: Upper end.
    """

    naive: float
    value: float
    low: float
    high: float


class HeldOut(NamedTuple):
    """Predictions of each true effect on `y` from a fit without its group, shape (pairs,) each.

    Attributes:
        predicted: From `x` and the other groups.
        without: From the other groups alone.
        precision: One over the variance of an estimate around the mean of true effects.
        gain: By how much `x` makes the squared error of a prediction of the true effect smaller,
            times `precision`; unbiased for true effects.
    """

    predicted: Floats
    without: Floats
    precision: Floats
    gain: Floats


class Fit(NamedTuple):
    """Pairs of effects, and how likely each bivariate normal is behind them.

    Attributes:
        pairs: The effects.
        nodes: Bivariate normals: variances × variances × correlations.
        log_likelihood: Restricted log-likelihood of each, shape (nodes,).
        weight: Posterior weight of each; they sum to 1.
    """

    pairs: Pairs
    nodes: Nodes
    log_likelihood: Floats
    weight: Floats


def fit(
    x: ArrayLike,
    x_se: ArrayLike,
    y: ArrayLike,
    y_se: ArrayLike,
    shared: ArrayLike = 0.0,
    groups: ArrayLike | None = None,
) -> Fit:
    """Fit a bivariate normal of true effects to pairs of estimates.

    Every node is a pair of variances and a correlation. Beforehand the correlation is uniform, and
    so is the share of the noise in each variance.

    Args:
        x: Effects on the first metric, shape (pairs,).
        x_se: Their standard errors, positive.
        y: Effects on the second metric in the same experiments.
        y_se: Their standard errors, positive.
        shared: Correlation of the two errors of a pair, for all or one each; 0 where different
            units are behind them.
        groups: What experiment each pair is of; without it each is one of its own.

    Raises:
        Refusal: `too_few_units` for fewer than `FEWEST` experiments; `zero_variance`;
            `not_applicable` for a correlation of errors outside (-1, 1); `inconsistent`.

    Source:
        van Houwelingen, Arends and Stijnen (2002), bivariate random effects; Daniels (1999).

    Example:
        >>> offline = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> online = [0.02, 0.01, 0.00, 0.01, 0.05, -0.04]
        >>> fitted = fit(offline, [0.005] * 6, online, [0.01] * 6)
        >>> round(correlation(fitted).naive, 2), round(correlation(fitted).value, 2)
        (0.89, 0.97)
    """
    pairs = pairs_of(x, x_se, y, y_se, shared, groups)
    at, volume = grid_of(pairs)
    log = restricted(sums_of(at, pairs))
    weight = volume * np.exp(log - log.max())
    return Fit(pairs, at, log, weight / weight.sum())


def correlation(fitted: Fit, alpha: float = 0.05) -> Association:
    """The correlation of true effects.

    Its value has the highest likelihood with the variances integrated out; its interval holds the
    values whose likelihood ratio is within the bound that is exact without noise.

    Args:
        fitted: From `fit`.
        alpha: Level of the interval.

    Source:
        Berger, Liseo and Wolpert (1999), integrated likelihood.
    """
    levels = fitted.nodes.correlation[:CORRELATIONS]
    density = fitted.weight.reshape(-1, CORRELATIONS).sum(0) / widths(levels)
    log = np.log(np.maximum(density, np.finfo(float).tiny))
    best, low, high = _within(np.arcsin(levels), log, _bound(fitted.pairs, alpha))
    naive = float(np.corrcoef(fitted.pairs.x, fitted.pairs.y)[0, 1])
    return Association(naive, *(math.sin(angle) for angle in (best, low, high)))


def slope(fitted: Fit, alpha: float = 0.05) -> Association:
    """How much the true effect on `y` grows with that on `x`.

    Its value and interval follow the likelihood at its best variances.

    Args:
        fitted: From `fit`.
        alpha: Level of the interval; an end without a bound is infinite.

    Source:
        Deming (1943) and Fuller (1987) for errors in both; here by profile likelihood.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> round(slope(fitted).value, 1)
        2.0
    """
    x_variance, y_variance = _likely(fitted)
    scale = math.sqrt(y_variance.max() / x_variance.max())
    angle = np.linspace(-np.pi / 2, np.pi / 2, 51)[1:-1]
    rest = y_variance.max() * np.linspace(0, 1, SPREADS) ** 2
    a, left, b = np.meshgrid(x_variance, rest, scale * np.tan(angle), indexing="ij")
    whole = left + b * b * a
    correlated = b * np.sqrt(a / np.maximum(whole, np.finfo(float).tiny))
    nodes = Nodes(*(axis.ravel() for axis in (a, whole, correlated)))
    profile = restricted(sums_of(nodes, fitted.pairs)).reshape(-1, len(angle)).max(0)
    best, low, high = _within(angle, profile, _bound(fitted.pairs, alpha))
    return Association(
        _plain_slope(fitted.pairs),
        scale * math.tan(best),
        -math.inf if low <= angle[0] else scale * math.tan(low),
        math.inf if high >= angle[-1] else scale * math.tan(high),
    )


def chance_positive(fitted: Fit, x: float, x_se: float) -> float:
    """The probability that the true effect on `y` is above zero, for an estimate of that on `x`.

    Args:
        fitted: From `fit`.
        x: An estimated effect on the first metric, of an experiment that is not in the fit.
        x_se: Its standard error.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> round(chance_positive(fitted, 0.02, 0.001), 2)
        1.0
    """
    expected, variance = new_effect(fitted.nodes, sums_of(fitted.nodes, fitted.pairs), x, x_se)
    sd = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    return _average(fitted.weight, special.ndtr(expected / sd))


def held_out(fitted: Fit) -> HeldOut:
    """Predict the effects of each experiment on `y` from a fit to the others.

    Errors that `x` and `y` share make the prediction of an estimate look better than that of the
    true effect is; their covariance is taken out of the gain.

    Args:
        fitted: From `fit`.

    Example:
        >>> x = [0.01, 0.02, -0.01, 0.00, 0.03, -0.02]
        >>> fitted = fit(x, [0.001] * 6, [2 * one for one in x], [0.002] * 6)
        >>> bool(held_out(fitted).gain.mean() > 0)
        True
    """
    pairs, whole = fitted.pairs, sums_of(fitted.nodes, fitted.pairs)
    spread = spreads(pairs.y, pairs.y_se)
    precision: Floats = 1 / (_average(spread.weight, spread.variance) + pairs.y_se**2)
    predicted, without, gain = (np.empty_like(pairs.x) for _ in range(3))
    for group in np.unique(pairs.groups):
        own = pairs.groups == group
        sums = whole - sums_of(fitted.nodes, chosen(pairs, own))
        weight = _reweighted(fitted, restricted(sums))
        rest = precision * ~own
        without[own] = rest @ pairs.y / rest.sum()
        for i in np.flatnonzero(own):
            x, x_se = float(pairs.x[i]), float(pairs.x_se[i])
            predicted[i] = _average(weight, new_effect(fitted.nodes, sums, x, x_se)[0])
            pull = _average(weight, pull_of(fitted.nodes, sums, x_se))
            closer = (pairs.y[i] - without[i]) ** 2 - (pairs.y[i] - predicted[i]) ** 2
            gain[i] = precision[i] * (closer - 2 * pull * pairs.shared[i])
    return HeldOut(predicted, without, precision, gain)


def _reweighted(fitted: Fit, log: Floats) -> Floats:
    """The weights of the nodes with another likelihood."""
    change = log - fitted.log_likelihood
    weight = fitted.weight * np.exp(change - change[fitted.weight > 0].max())
    scaled: Floats = weight / weight.sum()
    return scaled


def _average(weight: Floats, values: Floats) -> float:
    # Not a product of matrices: BLAS would start threads for it.
    return float(np.sum(weight * values))


def _likely(fitted: Fit) -> tuple[Floats, Floats]:
    """The variances of either metric that are not out of the question."""
    likely = fitted.log_likelihood > fitted.log_likelihood.max() - 8
    return np.unique(fitted.nodes.x_variance[likely]), np.unique(fitted.nodes.y_variance[likely])


def _bound(pairs: Pairs, alpha: float) -> float:
    """How far the log-likelihood may fall in an interval: exact without noise."""
    check_alpha(alpha)
    df = len(np.unique(pairs.groups)) - 2
    t = quantile(alpha / 2, df)
    return 0.5 * (df + 1) * math.log1p(t * t / df)


def _within(at: Floats, log: Floats, bound: float) -> tuple[float, float, float]:
    """Where a curve is highest, and where it has fallen by a bound on either side."""
    top = int(np.argmax(log))
    best = float(at[top])
    if 0 < top < len(at) - 1:
        left, middle, right = log[top - 1 : top + 2]
        best += float(0.5 * (left - right) / (left - 2 * middle + right) * (at[1] - at[0]))
    floor = log[top] - bound
    inside = np.flatnonzero(log >= floor)
    first, last = int(inside[0]), int(inside[-1])
    low = (
        at[0]
        if first == 0
        else np.interp(floor, log[first - 1 : first + 1], at[first - 1 : first + 1])
    )
    high = (
        at[-1]
        if last == len(at) - 1
        else np.interp(-floor, -log[last : last + 2], at[last : last + 2])
    )
    return best, float(low), float(high)


def _plain_slope(pairs: Pairs) -> float:
    moved = pairs.x - pairs.x.mean()
    return float(moved @ pairs.y / (moved @ moved)) if moved.any() else 0.0
