"""Adjust p-values and intervals for families of tests; Dunnett's test."""

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import brentq, compute_p_value, legendre, quantile
from abeval.stats.records import Floats, Refusal, check_finite

Method = Literal["bonferroni", "sidak", "holm", "hochberg", "hommel", "bh", "by"]

_STATSMODELS = {"hochberg": "simes-hochberg", "hommel": "hommel", "by": "fdr_by"}


def adjust(p_values: ArrayLike, method: Method = "holm") -> Floats:
    """Adjust the p-values of a family of tests, each in [0, 1], shape (tests,).

    `bonferroni`, `sidak`, `holm`, `hochberg`, `hommel` hold the family-wise error rate; `bh` and
    `by` the false discovery rate. Source: Holm (1979); Hochberg (1988); Hommel (1988); Benjamini &
    Hochberg (1995); Benjamini & Yekutieli (2001). Refusals: `not_finite` for NaN; `not_applicable`
    outside [0, 1] or for an unknown method.

    Example:
        >>> adjust([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = _check_p_values(p_values)
    if method not in get_args(Method):
        raise Refusal("not_applicable", f"unknown method {method!r}")
    tests = len(p)
    if tests < 2:
        return p.copy()
    if method == "bonferroni":
        return np.minimum(1.0, tests * p)
    if method == "sidak":
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(tests * np.log1p(-p)))
    if method in _STATSMODELS:
        # Imported here: it takes a second, which analyses by Holm and BH need not spend.
        from statsmodels.stats.multitest import multipletests

        return np.asarray(multipletests(p, method=_STATSMODELS[method])[1], dtype=float)
    order, left = np.argsort(p, kind="stable"), np.arange(tests, 0, -1)
    if method == "holm":
        stepped = np.maximum.accumulate(p[order] * left)
    else:
        order = order[::-1]
        stepped = np.minimum.accumulate(p[order] * tests / left)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


def adjust_weighted(p_values: ArrayLike, weights: ArrayLike) -> Floats:
    """Adjust by Bonferroni with a weight per test.

    Returns `min(1, p / share)`; 1 for a share of zero. Source: Rosenthal & Rubin (1983); Genovese,
    Roeder & Wasserman (2006). Refusals: `not_finite`; `not_applicable` for lengths that differ or
    no positive weight.

    Example:
        >>> adjust_weighted([0.01, 0.01], [4, 1]).tolist()
        [0.0125, 0.05]
    """
    p, shares = _check_p_values(p_values), check_finite(weights, "weights must be finite")
    if shares.shape != p.shape or np.any(shares < 0) or (len(p) and shares.sum() == 0):
        raise Refusal("not_applicable", "one weight per p-value, not negative, one positive")
    adjusted = np.ones_like(p)
    some = shares > 0
    adjusted[some] = np.minimum(1.0, p[some] * shares.sum() / shares[some])
    return adjusted


def interval_levels(
    p_values: ArrayLike,
    method: Method | Literal["weighted"],
    alpha: float = 0.05,
    weights: ArrayLike | None = None,
) -> list[float | None]:
    """Return the error rate of each interval that matches the adjusted p-values.

    None for a test that has no interval.

    Bonferroni and its weights: each test's share of alpha. Holm, Hochberg and Hommel reject all
    that Bonferroni does: a test that they leave open although its p-value is below alpha has
    Bonferroni's interval. Benjamini and Hochberg: intervals of the selected effects only, at false
    coverage rate alpha. Weights are the ones that `adjust_weighted` takes. Source: Benjamini &
    Yekutieli (JASA 2005).

    Example:
        >>> interval_levels([0.01, 0.4, 0.02, 0.3], "bh")
        [0.025, None, 0.025, None]
    """
    p = _check_p_values(p_values)
    if method == "bonferroni":
        return [alpha / len(p)] * len(p)
    if method == "weighted":
        shares = np.asarray(weights, dtype=float)
        return [float(level) for level in alpha * shares / shares.sum()]
    if method == "bh":
        selected = adjust(p, "bh") <= alpha
        level = alpha * int(selected.sum()) / len(p)
        return [level if chosen else None for chosen in selected]
    if method in ("holm", "hochberg", "hommel"):
        is_open = (p < alpha) & (adjust(p, method) >= alpha)
        return [alpha / len(p) if flag else None for flag in is_open]
    return [None] * len(p)


def _check_p_values(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1:
        raise Refusal("not_applicable", f"p-values of shape {p.shape} are not a family")
    if np.isnan(p).any():
        raise Refusal("not_finite", "a p-value is NaN; leave refused tests out of the family")
    if np.any((p < 0) | (p > 1)):
        raise Refusal("not_applicable", "p-values lie in [0, 1]")
    return p


# From these degrees of freedom on, t equals the normal in these integrals.
_LARGE = 1e6


def dunnett_p_values(p_values: ArrayLike, loadings: ArrayLike, df: float = math.inf) -> Floats:
    """Adjust two-sided p-values of treatments that share one control.

    A loading is the correlation of a difference with control's value, √(control's variance / the
    difference's), so that two differences correlate by the product. Source: Dunnett (JASA 1955),
    with unequal variances as correlations. Refusals: `not_applicable` for lengths that differ or a
    loading outside [0, 1].

    Example:
        >>> dunnett_p_values([0.01, 0.2], [0.7071, 0.7071]).round(4).tolist()
        [0.019, 0.3337]
    """
    p, shared = np.asarray(p_values, dtype=float), _check_loadings(loadings)
    free = min(df, _LARGE)
    if p.shape != shared.shape:
        raise Refusal("not_applicable", "one loading per p-value")
    adjusted = [
        _integrate_p_value(-quantile(p_value / 2, free), shared, free)
        if 0 < p_value < 1
        else p_value
        for p_value in p.tolist()
    ]
    return np.asarray(np.maximum(p, adjusted))


def dunnett_level(alpha: float, loadings: ArrayLike, df: float = math.inf) -> float:
    """Return the error rate of each interval for joint coverage of 1 − alpha.

    Example:
        >>> round(dunnett_level(0.05, [0.7071, 0.7071]), 4)
        0.027
    """
    shared, free = _check_loadings(loadings), min(df, _LARGE)
    high = -float(special.stdtrit(free, alpha / len(shared) / 2)) + 1e-6
    return compute_p_value(
        brentq(lambda c: _integrate_p_value(c, shared, free) - alpha, 0.0, high), df
    )


def _check_loadings(loadings: ArrayLike) -> Floats:
    shared = np.asarray(loadings, dtype=float)
    if shared.ndim != 1 or not np.all((shared >= 0) & (shared <= 1)):
        raise Refusal("not_applicable", "loadings are correlations between 0 and 1")
    return np.asarray(np.minimum(shared, 1 - 1e-12))


def _integrate_p_value(statistic: float, loadings: Floats, df: float) -> float:
    """Integrate P(max |T| >= statistic) over common factor z and common scale."""
    z, z_weight = legendre(160)
    z, z_weight = 9.0 * z, 9.0 * z_weight * np.exp(-0.5 * (9.0 * z) ** 2) / np.sqrt(2 * np.pi)
    scale, u_weight = _build_scale_rule(df)
    bound = statistic * scale[:, None, None]
    shift = loadings * z[:, None]
    spread = np.sqrt(1 - loadings**2)
    # Tails are added per arm before the product is taken, so a tiny p-value is not lost.
    outside = special.ndtr(-(bound + shift) / spread) + special.ndtr(-(bound - shift) / spread)
    exceed = -np.expm1(np.sum(np.log1p(-np.minimum(outside, 1 - 1e-16)), axis=2))
    return min(1.0, float(u_weight @ exceed @ z_weight))


def _build_scale_rule(df: float) -> tuple[Floats, Floats]:
    """Return quadrature nodes and weights of s / σ, even in the logarithm."""
    half = df / 2
    low, high = special.gammaincinv(half, 1e-17), special.gammainccinv(half, 1e-17)
    u, weight = legendre(160)
    span = (np.log(high) - np.log(low)) / 2
    x = np.log(low) + span * (u + 1)
    density = np.exp(half * x - np.exp(x) - special.gammaln(half))
    return np.sqrt(2 * np.exp(x) / df), span * weight * density
