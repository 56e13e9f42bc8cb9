"""Families of tests: adjusted p-values, intervals that fit them, many arms against one control."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from abeval.stats.records import Interval, Refusal

Floats = NDArray[np.float64]
Method = Literal["bonferroni", "sidak", "holm", "hochberg", "hommel", "bh", "by"]

_STATSMODELS = {"hochberg": "simes-hochberg", "hommel": "hommel", "by": "fdr_by"}


class FCR(NamedTuple):
    """Intervals of the selected effects, honest about the selection.

    Attributes:
        level: Confidence level of the intervals; 1 when nothing is selected.
        selected: Which effects Benjamini-Hochberg selects.
        intervals: One per effect, None where it is not selected.
    """

    level: float
    selected: tuple[bool, ...]
    intervals: tuple[Interval | None, ...]


class Dunnett(NamedTuple):
    """Every treatment against one control, at one family-wise level.

    Attributes:
        differences: Treatment less control.
        statistics: Differences over their pooled standard errors.
        p_values: Adjusted, two-sided.
        intervals: Simultaneous intervals of the differences.
        df: Degrees of freedom of the pooled variance.
    """

    differences: tuple[float, ...]
    statistics: tuple[float, ...]
    p_values: tuple[float, ...]
    intervals: tuple[Interval, ...]
    df: int


class PreferentialAlpha(NamedTuple):
    """Significance levels by role.

    Attributes:
        primary: Level of the primary metric, for each treatment.
        secondary: Level of every other metric, for each treatment; 0 where there is none.
    """

    primary: float
    secondary: float


def adjust(p_values: ArrayLike, method: Method = "holm") -> Floats:
    """Adjust p-values for having been chosen among many.

    Args:
        p_values: Shape (tests,), each in [0, 1]; may be empty.
        method: `bonferroni`, `sidak`, `holm`, `hochberg`, `hommel` hold the family-wise error
            rate; `bh` and `by` the false discovery rate.

    Returns:
        Adjusted p-values, shape (tests,), in the order given.

    Raises:
        Refusal: `not_finite` for NaN; `not_applicable` outside [0, 1] or for an unknown method.

    Source:
        Holm (1979); Hochberg (1988); Hommel (1988); Benjamini & Hochberg (1995); Benjamini &
        Yekutieli (2001).

    Example:
        >>> adjust([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    if method not in get_args(Method):
        raise Refusal("not_applicable", f"unknown method {method!r}")
    if len(p) < 2:
        return p.copy()
    if method == "bonferroni":
        return np.minimum(1.0, len(p) * p)
    if method == "sidak":
        return _sidak(p)
    if method == "holm":
        return _holm(p)
    if method == "bh":
        return _benjamini_hochberg(p)
    return _statsmodels(p, method)


def weighted(p_values: ArrayLike, weights: ArrayLike) -> Floats:
    """Bonferroni with a share of alpha per test, such as by metric role.

    Args:
        p_values: Shape (tests,).
        weights: Shares of alpha in any scale, shape (tests,), not negative.

    Returns:
        `min(1, p / share)`, shape (tests,); 1 for a share of zero.

    Raises:
        Refusal: `not_finite`; `not_applicable` for lengths that differ or no positive weight.

    Source:
        Rosenthal & Rubin (1983); Genovese, Roeder & Wasserman (2006).

    Example:
        >>> weighted([0.01, 0.01], [4, 1]).tolist()
        [0.0125, 0.05]
    """
    p, shares = _checked(p_values), np.asarray(weights, dtype=float)
    if not np.isfinite(shares).all():
        raise Refusal("not_finite", "weights must be finite")
    if shares.shape != p.shape or np.any(shares < 0) or (len(p) and shares.sum() == 0):
        raise Refusal("not_applicable", "one weight per p-value, not negative, one positive")
    adjusted = np.ones_like(p)
    some = shares > 0
    adjusted[some] = np.minimum(1.0, p[some] * shares.sum() / shares[some])
    return adjusted


def preferential(alpha: float, gamma: float, treatments: int, metrics: int) -> PreferentialAlpha:
    """Split alpha between the primary metric and all others.

    Args:
        alpha: Family-wise level.
        gamma: Share of the primary metric, in (0, 1).
        treatments: Treatments compared with control.
        metrics: Metrics, the primary one included. A primary metric alone gets all of alpha.

    Returns:
        Levels at which to test, per treatment.

    Raises:
        Refusal: `not_applicable` for levels outside (0, 1) or counts below one.

    Source:
        Eppo, "preferential Bonferroni" (docs.geteppo.com, multiple testing).

    Example:
        >>> preferential(0.05, 0.5, treatments=2, metrics=6)
        PreferentialAlpha(primary=0.0125, secondary=0.0025)
    """
    if not (0 < alpha < 1 and 0 < gamma < 1) or treatments < 1 or metrics < 1:
        raise Refusal("not_applicable", "alpha and gamma lie in (0, 1), counts are at least one")
    if metrics == 1:
        return PreferentialAlpha(alpha / treatments, 0.0)
    others = alpha * (1 - gamma) / (treatments * (metrics - 1))
    return PreferentialAlpha(alpha * gamma / treatments, others)


def fcr(estimates: ArrayLike, ses: ArrayLike, q: float = 0.05, df: ArrayLike = np.inf) -> FCR:
    """Intervals of the effects Benjamini-Hochberg selects, at false coverage rate q.

    Args:
        estimates: Effects, shape (tests,).
        ses: Their standard errors, shape (tests,), positive.
        q: False discovery and false coverage rate.
        df: Degrees of freedom, shape (tests,) or one for all; infinite for z.

    Returns:
        Level `1 - selected * q / tests` and the intervals of the selected.

    Raises:
        Refusal: `not_finite`; `zero_variance` for a standard error that is not positive.

    Source:
        Benjamini & Yekutieli (JASA 2005).

    Example:
        >>> found = fcr([0.021, 0.015, 0.034, 0.001], [0.008, 0.009, 0.010, 0.012])
        >>> found.level, found.selected
        (0.975, (True, False, True, False))
    """
    effects, errors = np.asarray(estimates, dtype=float), np.asarray(ses, dtype=float)
    if not (np.isfinite(effects).all() and np.isfinite(errors).all()):
        raise Refusal("not_finite", "effects and standard errors must be finite")
    if np.any(errors <= 0):
        raise Refusal("zero_variance", "an interval needs a positive standard error")
    freedom = np.broadcast_to(np.asarray(df, dtype=float), effects.shape)
    selected = adjust(2 * _t_tail(freedom, np.abs(effects / errors)), "bh") <= q
    if not selected.any():
        return FCR(1.0, tuple(selected.tolist()), (None,) * len(effects))
    tail = float(selected.sum()) * q / len(effects) / 2
    widths = -_t_quantile(freedom, tail) * errors
    intervals = tuple(
        Interval(float(e - w), float(e + w)) if chosen else None
        for e, w, chosen in zip(effects, widths, selected, strict=True)
    )
    return FCR(1 - 2 * tail, tuple(selected.tolist()), intervals)


def dunnett(
    units: Sequence[int],
    means: Sequence[float],
    variances: Sequence[float],
    alpha: float = 0.05,
) -> Dunnett:
    """Compare several treatments with one control by their means, of one common variance.

    The multivariate t probability is integrated (its correlations are products), not sampled,
    so the answer is the same on every run.

    Args:
        units: Units per arm, control first, shape (arms,).
        means: Means per arm, shape (arms,).
        variances: Sample variances per arm, shape (arms,).
        alpha: Family-wise level of the simultaneous intervals.

    Returns:
        Statistics, adjusted p-values and simultaneous intervals of the treatments.

    Raises:
        Refusal: `too_few_units` if the pooled variance has no degree of freedom or an arm no
            unit; `zero_variance`; `not_finite`; `not_applicable` for fewer than two arms.

    Source:
        Dunnett (JASA 1955).

    Example:
        >>> found = dunnett([6, 4, 5], [8.25, 8.9, 10.94], [0.907, 0.773, 2.593])
        >>> [round(p, 3) for p in found.p_values]
        [0.631, 0.006]
    """
    n, mean, variance = (np.asarray(x, dtype=float) for x in (units, means, variances))
    if not (len(n) == len(mean) == len(variance)) or len(n) < 2:
        raise Refusal("not_applicable", "a control and at least one treatment, of equal lengths")
    if not (np.isfinite(n).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise Refusal("not_finite", "units, means and variances must be finite")
    df = int(n.sum()) - len(n)
    if df < 1 or np.any(n < 1):
        raise Refusal("too_few_units", "a pooled variance needs more units than arms")
    pooled = float(np.sum((n - 1) * variance)) / df
    if pooled <= 0:
        raise Refusal("zero_variance", "all units of every arm are equal")
    differences = mean[1:] - mean[0]
    errors = np.sqrt(pooled * (1 / n[1:] + 1 / n[0]))
    loadings = np.sqrt(n[1:] / (n[1:] + n[0]))
    statistics = differences / errors
    p_values = [_dunnett_p_value(abs(float(t)), loadings, df) for t in statistics]
    width = _dunnett_critical(alpha, loadings, df) * errors
    intervals = tuple(
        Interval(float(d - w), float(d + w)) for d, w in zip(differences, width, strict=True)
    )
    return Dunnett(
        tuple(differences.tolist()), tuple(statistics.tolist()), tuple(p_values), intervals, df
    )


def _checked(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1:
        raise Refusal("not_applicable", f"p-values of shape {p.shape} are not a family")
    if np.isnan(p).any():
        raise Refusal("not_finite", "a p-value is NaN; leave refused tests out of the family")
    if np.any((p < 0) | (p > 1)):
        raise Refusal("not_applicable", "p-values lie in [0, 1]")
    return p


def _sidak(p: Floats) -> Floats:
    adjusted = np.ones_like(p)
    below = p < 1
    adjusted[below] = -np.expm1(len(p) * np.log1p(-p[below]))
    return adjusted


def _holm(p: Floats) -> Floats:
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


def _benjamini_hochberg(p: Floats) -> Floats:
    order = np.argsort(p, kind="stable")[::-1]
    stepped = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


def _statsmodels(p: Floats, method: Method) -> Floats:
    # Imported here: it takes a second, which analyses by Holm and BH need not spend.
    from statsmodels.stats.multitest import multipletests

    return np.asarray(multipletests(p, method=_STATSMODELS[method])[1], dtype=float)


def _t_tail(df: Floats, statistic: Floats) -> Floats:
    z = special.ndtr(-statistic)
    t = special.stdtr(np.where(np.isinf(df), 1.0, df), -statistic)
    return np.where(np.isinf(df), z, t)


def _t_quantile(df: Floats, tail: float) -> Floats:
    t = special.stdtrit(np.where(np.isinf(df), 1.0, df), tail)
    return np.where(np.isinf(df), special.ndtri(tail), t)


def _dunnett_p_value(statistic: float, loadings: Floats, df: int) -> float:
    """P(max |T| >= statistic): the common factor z and the common scale are integrated out."""
    z, z_weight = np.polynomial.legendre.leggauss(160)
    z, z_weight = 9.0 * z, 9.0 * z_weight * np.exp(-0.5 * (9.0 * z) ** 2) / np.sqrt(2 * np.pi)
    scale, u_weight = _pooled_scale(df)
    bound = statistic * scale[:, None, None]
    shift = loadings * z[:, None]
    spread = np.sqrt(1 - loadings**2)
    # Tails are added per arm before the product is taken, so a tiny p-value is not lost.
    outside = special.ndtr(-(bound + shift) / spread) + special.ndtr(-(bound - shift) / spread)
    exceed = -np.expm1(np.sum(np.log1p(-np.minimum(outside, 1 - 1e-16)), axis=2))
    return float(np.clip(u_weight @ exceed @ z_weight, 0.0, 1.0))


def _pooled_scale(df: int) -> tuple[Floats, Floats]:
    """Nodes and weights for s/sigma of the pooled variance, even in the logarithm."""
    half = df / 2
    low, high = special.gammaincinv(half, 1e-17), special.gammainccinv(half, 1e-17)
    u, weight = np.polynomial.legendre.leggauss(160)
    span = (np.log(high) - np.log(low)) / 2
    x = np.log(low) + span * (u + 1)
    density = np.exp(half * x - np.exp(x) - special.gammaln(half))
    return np.sqrt(2 * np.exp(x) / df), span * weight * density


def _dunnett_critical(alpha: float, loadings: Floats, df: int) -> float:
    from scipy.optimize import brentq

    high = -float(special.stdtrit(df, alpha / len(loadings) / 2))
    return float(brentq(lambda c: _dunnett_p_value(c, loadings, df) - alpha, 0.0, high + 1e-6))
