"""Shrink effects by the spread of past effects (empirical Bayes).

Estimated effects are true effects plus noise of known size, and true effects are normal. Shrunk
effects can be selected and added up: even if the largest are chosen, their sum is not too large on
average.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import brentq, check_alpha, compute_p_value
from abeval.stats.records import Floats, Interval, Refusal, check_finite

FEWEST = 5
"""With fewer effects no spread is estimated."""

_NODES = 200
# Range of log(variance of true effects / noise).
_REACH = -14.0, 28.0

# Variances whose log-density is lower by this much are dropped.
_NEGLIGIBLE = 14.0


class Spreads(NamedTuple):
    """Possible variances of the true effects and their weights, (nodes,).

    Weights sum to 1. `mean` is the mean of true effects at each variance, by generalised least
    squares. `noise` is the share of noise in the variance of an estimate with a typical error, in
    falling order.
    """

    variance: Floats
    weight: Floats
    mean: Floats
    mean_variance: Floats
    noise: Floats

    @property
    def expected_variance(self) -> float:
        """Return the mean of the possible variances."""
        return float(np.sum(self.weight * self.variance))


class FittedPrior(NamedTuple):
    """The normal prior of the next experiment's true effect, with intervals.

    `sd` includes the uncertainty of the mean. `effects` is the number of effects it was fitted to.
    """

    mean: float
    sd: float
    mean_low: float
    mean_high: float
    sd_low: float
    sd_high: float
    effects: int


class Shrunk(NamedTuple):
    """Posterior of each true effect: mean, central interval, P(> 0)."""

    value: Floats
    low: Floats
    high: Floats
    chance_positive: Floats


class Total(NamedTuple):
    """The sum of some estimates as they are, and shrunk, with its interval.

    `effects` is the number of effects that count.
    """

    naive: float
    value: float
    low: float
    high: float
    effects: int
    sd: float


class Combined(NamedTuple):
    """Two independent estimates of one number, and the best combination of both.

    `p_value` is that of no difference between them.
    """

    value: float
    sd: float
    p_value: float


def prior(effects: ArrayLike, ses: ArrayLike, alpha: float = 0.05) -> FittedPrior:
    """Fit a normal prior of true effects to noisy estimates.

    Source: Morris (1983); Daniels (1999) for the prior of the variance: the share of the noise in
    the whole variance is uniform. Refusals: `too_few_units` for fewer than `FEWEST` effects;
    `zero_variance`; `not_finite`.

    Example:
        >>> fitted = prior([0.02, -0.01, 0.03, 0.00, 0.01, -0.02], [0.01] * 6)
        >>> round(fitted.mean, 3), round(fitted.sd, 3)
        (0.005, 0.018)
    """
    values, errors = _check_effects(effects, ses)
    fit = fit_spreads(values, errors)
    mean = float(fit.weight @ fit.mean)
    variance = float(fit.weight @ (fit.variance + fit.mean_variance))
    low, high = _compute_mixture_interval(fit.mean, np.sqrt(fit.mean_variance), fit.weight, alpha)
    levels = alpha / 2, 1 - alpha / 2
    least, most = np.interp(levels, np.cumsum(fit.weight), np.sqrt(fit.variance))
    sd = math.sqrt(variance)
    return FittedPrior(mean, sd, low, high, float(least), float(most), len(values))


def shrink(effects: ArrayLike, ses: ArrayLike, alpha: float = 0.05) -> Shrunk:
    """Estimate each true effect from its estimate and the spread of all.

    Example:
        >>> shrunk = shrink([0.02, -0.01, 0.03, 0.00, 0.01, -0.02], [0.01] * 6)
        >>> [round(value, 3) for value in shrunk.value.tolist()]
        [0.014, -0.004, 0.02, 0.002, 0.008, -0.01]
    """
    values, errors = _check_effects(effects, ses)
    fit = fit_spreads(values, errors)
    whole = np.ones(1)
    each = [_sum(fit, values[[i]], errors[[i]], whole) for i in range(len(values))]
    ends = [_compute_mixture_interval(mean, sd, weight, alpha) for mean, sd, weight in each]
    return Shrunk(
        np.array([weight @ mean for mean, _, weight in each]),
        np.array([end.low for end in ends]),
        np.array([end.high for end in ends]),
        np.array([weight @ special.ndtr(mean / sd) for mean, sd, weight in each]),
    )


def total(effects: ArrayLike, ses: ArrayLike, chosen: ArrayLike, alpha: float = 0.05) -> Total:
    """Sum the true effects of experiments that were chosen by their estimates.

    `chosen` says of each effect whether it counts, or how much of it does.

    Effects of all experiments are needed, chosen or not: their spread says how much is noise.
    Source: Efron (2011), "Tweedie's formula and selection bias"; Lee and Shen (KDD 2018), "Winner's
    curse: bias estimation for total effects of features in online controlled experiments".
    Refusals: As `prior`; `inconsistent` if `chosen` has another shape.

    Example:
        >>> effects = [0.02, -0.01, 0.03, 0.00, 0.01, -0.02]
        >>> gained = total(effects, [0.01] * 6, [effect > 0.015 for effect in effects])
        >>> round(gained.naive, 3), round(gained.value, 3)
        (0.05, 0.034)
    """
    values, errors = _check_effects(effects, ses)
    counts = np.asarray(chosen, dtype=np.float64)
    if counts.shape != values.shape:
        raise Refusal("inconsistent", "one choice is needed for each effect")
    if not counts.any():
        return Total(0.0, 0.0, 0.0, 0.0, 0, 0.0)
    mean, sd, weight = _sum(fit_spreads(values, errors), values, errors, counts)
    low, high = _compute_mixture_interval(mean, sd, weight, alpha)
    naive, value = math.fsum((counts * values).tolist()), float(weight @ mean)
    spread = math.sqrt(float(weight @ (sd**2 + (mean - value) ** 2)))
    return Total(naive, value, low, high, int(np.count_nonzero(counts)), spread)


def combine(first: tuple[float, float], second: tuple[float, float]) -> Combined:
    """Combine two independent estimates by precision.

    Each estimate comes with its standard deviation. The combination does not depend on the
    difference between them: a test of it selects nothing. Source: Cochran (1954), "The combination
    of estimates from different experiments".

    Example:
        >>> combined = combine((0.02, 0.01), (0.04, 0.02))
        >>> round(combined.value, 3), round(combined.sd, 4), round(combined.p_value, 2)
        (0.024, 0.0089, 0.37)
    """
    precisions = 1 / first[1] ** 2, 1 / second[1] ** 2
    whole = sum(precisions)
    value = (precisions[0] * first[0] + precisions[1] * second[0]) / whole
    apart = (second[0] - first[0]) / math.hypot(first[1], second[1])
    return Combined(value, whole**-0.5, compute_p_value(apart))


def fit_spreads(effects: Floats, ses: Floats) -> Spreads:
    """Return the posterior of the variance of true effects, on a grid.

    The variance is s² (1 / w − 1), with the share w of noise uniform on (0, 1) beforehand, and s²
    the harmonic mean of the squared errors.
    """
    rough = np.linspace(*_REACH, _NODES)
    log = _log_posterior(rough, effects, ses)[0]
    likely = np.flatnonzero(log > log.max() - _NEGLIGIBLE)
    first, last = max(likely[0] - 1, 0), min(likely[-1] + 1, _NODES - 1)
    at = np.linspace(rough[first], rough[last], _NODES)
    log, variance, mean, mean_variance = _log_posterior(at, effects, ses)
    weight = np.exp(log - log.max())
    return Spreads(variance, weight / weight.sum(), mean, mean_variance, special.expit(-at))


def _log_posterior(
    ratio: Floats, effects: Floats, ses: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log-density, variances, means and variances of the means."""
    noise = ses**2
    variance = np.exp(ratio) / np.mean(1 / noise)
    precision = 1 / (variance[:, None] + noise)
    total_precision = precision.sum(1)
    mean = np.sum(precision * effects, axis=1) / total_precision
    misfit = np.sum(precision * (effects - mean[:, None]) ** 2, axis=1)
    # A share that is uniform has this density in the log of the ratio.
    beforehand = special.log_expit(ratio) + special.log_expit(-ratio)
    log = 0.5 * (np.log(precision).sum(1) - np.log(total_precision) - misfit) + beforehand
    return log, variance, mean, 1 / total_precision


def _check_effects(effects: ArrayLike, ses: ArrayLike) -> tuple[Floats, Floats]:
    values, errors = check_finite(effects), check_finite(ses)
    if values.ndim != 1 or values.shape != errors.shape:
        raise Refusal("inconsistent", "one standard error is needed for each effect")
    if len(values) < FEWEST:
        raise Refusal("too_few_units", f"a spread needs {FEWEST} effects, got {len(values)}")
    if np.any(errors <= 0):
        raise Refusal("zero_variance", "every effect needs a positive standard error")
    return values, errors


def _sum(
    fit: Spreads, values: Floats, errors: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Describe the weighted sum of true effects, given each variance of the prior.

    `values` and `errors` are estimates and their standard errors, `counts` how much of each effect
    is added, shape (effects,). Returns mean and standard deviation of the sum, and the weight of
    each variance, shape (variances,).
    """
    noise = errors**2
    # Reliability: the share of an estimate that is kept.
    kept = fit.variance[:, None] / (fit.variance[:, None] + noise)
    pulled = (1 - kept) @ counts
    mean = kept @ (counts * values) + pulled * fit.mean
    variance = kept @ (counts**2 * noise) + pulled**2 * fit.mean_variance
    return mean, np.sqrt(variance), fit.weight


def _compute_mixture_interval(mean: Floats, sd: Floats, weight: Floats, alpha: float) -> Interval:
    """Return the central interval of a mixture of normals."""
    check_alpha(alpha)
    return Interval(*(_solve_quantile(mean, sd, weight, q) for q in (alpha / 2, 1 - alpha / 2)))


def _solve_quantile(mean: Floats, sd: Floats, weight: Floats, level: float) -> float:
    ends = mean + special.ndtri(level) * sd
    low, high = float(ends.min()), float(ends.max())
    if high - low <= 1e-12 * float(sd.max()):
        return low

    def below(x: float) -> float:
        return float(weight @ special.ndtr((x - mean) / sd)) - level

    return brentq(below, low, high, xtol=1e-9 * float(sd.max()))
