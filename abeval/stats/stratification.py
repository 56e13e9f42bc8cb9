"""Post-stratification: differences within strata, combined by the strata's shares.

`inference/adjust.py` hands over the moments by cell of the segment that `stratify_by` names in the
experiment file.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import effects, means, off_policy
from abeval.stats.adjustment import variance_removed
from abeval.stats.effects import satterthwaite
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted, Effect, Estimate, Floats, Refusal


class PostStratified(NamedTuple):
    """A post-stratified effect and its strata.

    Attributes:
        adjusted: The effect, the effect without strata, and what a relative effect needs.
        shares: Share of each stratum.
        differences: Treatment − control within each stratum.
        variances: Sampling variance of each difference.
    """

    adjusted: Adjusted
    shares: tuple[float, ...]
    differences: tuple[float, ...]
    variances: tuple[float, ...]


def mean(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    alpha: float = 0.05,
    shares: Sequence[float] | None = None,
) -> PostStratified:
    """Difference in means with the strata's shares taken as known.

    Δ = Σ w_k Δ_k and Var Δ = Σ w_k² v_k, w_k the share of units of both variants
    (Miratrix, Sekhon and Yu 2013; Xie and Aurisset 2016).

    Args:
        control: Moments of the control, one per stratum.
        treatment: Moments of the treatment in the same strata.
        alpha: Error rate of test and interval.
        shares: Shares of the strata, summing to 1; those of both variants' units by default.

    Raises:
        Refusal: `too_few_units` when a stratum has fewer than two units in a variant
            (merge strata then), `zero_variance`.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> p = mean(control, treatment)
        >>> p.shares, p.differences, p.adjusted.effect.difference
        ((0.5, 0.5), (1.0, 2.0), 1.5)
    """
    return _stratify(
        control, treatment, _mean, _checked_shares(control, treatment, shares), alpha, None
    )


def mean_random(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> PostStratified:
    """Like `mean`, with shares that are estimated from these units.

    Adds the multinomial variance of the shares, which matters if the effect differs between
    strata.

    Example:
        >>> control = [Moments.of([1, 2, 3]), Moments.of([7, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4]), Moments.of([8, 10, 12])]
        >>> fixed = mean(control, treatment).adjusted.effect.se
        >>> mean_random(control, treatment).adjusted.effect.se > fixed
        True
    """
    units = _units(control, treatment)
    return _stratify(
        control, treatment, _mean, _checked_shares(control, treatment, None), alpha, units
    )


def ratio(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    alpha: float = 0.05,
    shares: Sequence[float] | None = None,
) -> PostStratified:
    """Difference of ratios with post-stratified numerators and denominators.

    Arguments and refusals as in `mean`, with variables 0 and 1 the numerator and
    denominator.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> round(ratio(control, treatment).adjusted.effect.difference, 4)
        0.1707
    """
    return _stratify(
        control, treatment, _ratio, _checked_shares(control, treatment, shares), alpha, None
    )


def ratio_random(
    control: Sequence[Moments], treatment: Sequence[Moments], alpha: float = 0.05
) -> PostStratified:
    """Like `ratio`, with shares that are estimated from these units.

    Example:
        >>> control = [Moments.of([1, 2, 3], [4, 5, 6]), Moments.of([3, 4, 2], [9, 8, 9])]
        >>> treatment = [Moments.of([2, 3, 4], [4, 6, 6]), Moments.of([3, 6, 4], [9, 8, 8])]
        >>> fixed = ratio(control, treatment).adjusted.effect.se
        >>> ratio_random(control, treatment).adjusted.effect.se > fixed
        True
    """
    units = _units(control, treatment)
    return _stratify(
        control, treatment, _ratio, _checked_shares(control, treatment, None), alpha, units
    )


class _Metric(NamedTuple):
    """A smooth function of the means: value, gradient, and its estimate without strata."""

    width: int
    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Floats]
    estimate: Callable[[Moments], Estimate]
    method: str


_mean = _Metric(1, lambda m: float(m[0]), np.ones_like, means.estimate, "welch_t")
_ratio = _Metric(2, lambda m: float(m[0] / m[1]), means.gradient, off_policy.estimate, "delta_t")


def _units(control: Sequence[Moments], treatment: Sequence[Moments]) -> int:
    return sum(arm.n for arm in (*control, *treatment))


def _checked_shares(
    control: Sequence[Moments], treatment: Sequence[Moments], shares: Sequence[float] | None
) -> Floats:
    """Shares of the strata; both the strata and the shares are checked."""
    if len(control) != len(treatment) or not control:
        raise ValueError("control and treatment need the same strata, at least one")
    for k, arms in enumerate(zip(control, treatment, strict=True)):
        if min(arm.n for arm in arms) < 2:
            raise Refusal("too_few_units", f"stratum {k} has fewer than two units in a variant")
    sizes = [c.n + t.n for c, t in zip(control, treatment, strict=True)]
    weights = np.array(sizes if shares is None else shares, dtype=np.float64)
    if weights.shape != (len(control),) or not (weights >= 0).all():
        raise ValueError("one share per stratum, none negative")
    if shares is not None and not math.isclose(float(weights.sum()), 1.0, rel_tol=1e-9):
        raise ValueError("shares must sum to 1")
    return np.asarray(weights / weights.sum())


def _stratify(
    control: Sequence[Moments],
    treatment: Sequence[Moments],
    metric: _Metric,
    shares: Floats,
    alpha: float,
    units: int | None,
) -> PostStratified:
    """`units` is the size of the sample from which shares are estimated, None if known."""
    arms = [_arm(variant, metric, shares) for variant in (control, treatment)]
    slope = arms[1].line - arms[0].line
    shift = _covariance(shares, slope, slope, units)
    dfs = [*arms[0].dfs, *arms[1].dfs, (units or 2) - 1.0]
    effect = _effect(arms, [*arms[0].terms, *arms[1].terms, shift], dfs, alpha)
    raw = [metric.estimate(functools.reduce(Moments.merge, v)) for v in (control, treatment)]
    unadjusted = effects.compare(raw[0], raw[1], alpha, metric.method)
    below, above = (_value(arm, shares, units, effect.df) for arm in arms)
    covariance = _covariance(shares, slope, arms[0].line, units) - math.fsum(arms[0].terms)
    removed = variance_removed(effect, unadjusted)
    adjusted = Adjusted(effect, unadjusted, (), removed, below, above, covariance)
    pairs = [
        (metric.estimate(c), metric.estimate(t)) for c, t in zip(control, treatment, strict=True)
    ]
    return PostStratified(
        adjusted,
        tuple(shares.tolist()),
        tuple(t.value - c.value for c, t in pairs),
        tuple(t.variance + c.variance for c, t in pairs),
    )


class _Arm(NamedTuple):
    """One variant: its value, each stratum's variance term, and its linearised strata."""

    value: float
    terms: list[float]
    dfs: list[float]
    line: Floats


def _arm(strata: Sequence[Moments], metric: _Metric, shares: Floats) -> _Arm:
    picked = [m.pick(*range(metric.width)) for m in strata]
    means_by_stratum = np.array([m.mean for m in picked])
    centre = shares @ means_by_stratum
    slope = metric.gradient(centre)
    terms = [
        float(w) ** 2 * means.quadratic(slope, m.covariance) / m.n
        for w, m in zip(shares, picked, strict=True)
    ]
    return _Arm(metric.value(centre), terms, [m.n - 1.0 for m in picked], means_by_stratum @ slope)


def _covariance(shares: Floats, a: Floats, b: Floats, units: int | None) -> float:
    """Covariance of Σ ν_k a_k and Σ ν_k b_k over samples of the shares, zero if known."""
    if units is None:
        return 0.0
    return float(shares @ ((a - shares @ a) * (b - shares @ b))) / units


def _value(arm: _Arm, shares: Floats, units: int | None, df: float) -> Estimate:
    variance = math.fsum(arm.terms) + _covariance(shares, arm.line, arm.line, units)
    return Estimate(arm.value, variance, int(sum(arm.dfs)) + len(arm.dfs), df)


def _effect(arms: Sequence[_Arm], terms: list[float], dfs: list[float], alpha: float) -> Effect:
    variance = math.fsum(terms)
    if variance == 0:
        raise Refusal("zero_variance", "no stratum varies: no test is possible")
    low, high = arms[0].value, arms[1].value
    df, se = satterthwaite(terms, dfs), math.sqrt(variance)
    return effects.from_difference(low, high, high - low, se, df, alpha, "post_stratified_t")
