"""Importance weights of a log, and checks that it can support an estimate for another policy.

Standard errors follow from the influence of each row on an estimate, clustered by unit if needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.records import Bools, Floats, Refusal

MIN_ESS = 100.0
"""Least effective sample size for an estimate: below, intervals cover too little."""

MAX_UNSUPPORTED = 0.05
"""Largest share of evaluation probability on actions never taken: their rewards are missed."""

MEAN_WEIGHT_ALPHA, MEAN_WEIGHT_SLACK = 1e-4, 0.05
"""Propensities are wrong if the mean weight differs from 1 at this level and by more than this.

The mean of skewed weights is below 1 more often than a t-test assumes."""


class Spread(NamedTuple):
    """Standard error, skewness of the influence of a cluster, and number of clusters (or rows)."""

    se: float
    skewness: float
    units: int


class Diagnostics(NamedTuple):
    """How well a log supports the evaluation of another policy.

    Attributes:
        units: Clusters, or rows without clusters.
        rewarded: Rows with a reward other than 0.
        mean_weight: Mean weight, which should be 1.
        mean_weight_se: Its standard error, clustered if there are clusters.
        mean_weight_p: Two-sided p-value of a mean of 1.
        ess: Effective sample size (Σw)²/Σw² of the rows.
        ess_share: `ess / rows`.
        ess_units: Effective sample size of the weights summed per cluster.
        accepted: Expected number of rows that rejection sampling at w / max w keeps.
        unsupported: Share of evaluation probability on actions never taken; None if unknown.
    """

    rows: int
    units: int
    rewarded: int
    mean_weight: float
    mean_weight_se: float
    mean_weight_p: float
    max_weight: float
    weight_p99: float
    ess: float
    ess_share: float
    ess_units: float
    accepted: float
    unsupported: float | None


def importance_weights(logging: ArrayLike, evaluation: ArrayLike) -> Floats:
    """Return the weights evaluation / logging of the logged actions (Horvitz and Thompson 1952).

    Refusals: `too_few_units` without rows; `inconsistent` when lengths differ; `invalid_propensity`
    for a logging probability outside (0, 1] or another outside [0, 1].

    Example:
        >>> importance_weights([0.5, 0.25], [0.25, 1.0]).tolist()
        [0.5, 4.0]
    """
    logged, evaluated = columns(logging, evaluation)
    _check_probability("logging", logged, (logged > 0) & (logged <= 1), "(0, 1]")
    _check_probability("evaluation", evaluated, (evaluated >= 0) & (evaluated <= 1), "[0, 1]")
    with np.errstate(over="ignore"):
        weights = evaluated / logged
    if not np.isfinite(weights).all():
        raise Refusal("invalid_propensity", "a logging probability is too small to divide by")
    return weights


def _check_probability(name: str, values: Floats, valid: Bools, where: str) -> None:
    wrong = int(np.count_nonzero(~valid))
    if wrong:
        first = float(values[~valid][0])
        message = f"{wrong} of {values.size} {name} probabilities are not in {where}, such as"
        raise Refusal("invalid_propensity", f"{message} {first:g}")


def columns(*arrays: ArrayLike) -> tuple[Floats, ...]:
    """Return columns of doubles of equal length.

    Refusals: `inconsistent` unless all are one-dimensional and of equal length; `too_few_units` if
    they are empty.
    """
    doubles = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    if any(column.ndim != 1 for column in doubles) or len({column.size for column in doubles}) > 1:
        shapes = ", ".join(str(column.shape) for column in doubles)
        raise Refusal(
            "inconsistent", f"columns must be one-dimensional and of equal length: {shapes}"
        )
    if doubles[0].size == 0:
        raise Refusal("too_few_units", "the log has no rows")
    return doubles


def by_cluster(values: Floats, clusters: ArrayLike | None) -> Floats:
    """Return sums of values per cluster; the values themselves without clusters.

    Refusals: `inconsistent` for ids that are missing, not integers, or not one per value.
    """
    if clusters is None:
        return values
    ids = np.asarray(clusters)
    if ids.shape != values.shape or ids.dtype.kind not in "iu":
        message = f"cluster ids must be whole numbers, one per row; got {ids.dtype} {ids.shape}"
        raise Refusal("inconsistent", message)
    codes = np.unique(ids, return_inverse=True)[1]
    return np.bincount(codes, weights=values).astype(np.float64)


def spread(value: float, influence: Floats, clusters: ArrayLike | None = None) -> Spread:
    """Return standard error and skewness from the influence of each row on a mean over rows.

    The influence ψ is such that value − truth ≈ Σψ/n. For independent rows this is the delta
    method, sd(ψ)/√n with divisor n − 1. With clusters the variance is that of sums per cluster, so
    rows of one unit may be correlated in any way (Huber 1967; Liang and Zeger 1986). A standard
    error below the value's rounding error counts as zero. Refusals: `too_few_units` below two
    clusters; `not_finite`.

    Example:
        >>> rewards = np.array([1.0, 0.0, 1.0, 0.0])
        >>> round(spread(0.5, rewards - 0.5).se, 6)
        0.288675
        >>> round(spread(0.5, rewards - 0.5, clusters=[1, 2, 1, 2]).se, 6)
        0.5
    """
    sums = by_cluster(influence, clusters)
    if sums.size < 2:
        raise Refusal("too_few_units", f"a variance needs at least two units, got {sums.size}")
    if not np.isfinite(sums).all():
        raise Refusal("not_finite", "an estimate or its variance is not finite")
    centred = sums - sums.mean()
    second = float((centred**2).mean())
    se = math.sqrt(second / (sums.size - 1)) * sums.size / influence.size
    if se <= 1e-12 * abs(value):
        return Spread(0.0, 0.0, sums.size)
    third = float(((centred / math.sqrt(second)) ** 3).mean()) if second > 0 else 0.0
    return Spread(se, third, sums.size)


def effective_size(weights: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Return the effective sample size (Σw)²/Σw² (Kong 1992), of sums per cluster if there are any.

    It is n for equal weights, about 1 if one weight dominates, and 0 if all weights are 0.

    Example:
        >>> effective_size([1, 1, 1, 1]), effective_size([1, 1, 1, 1], clusters=[7, 7, 9, 9])
        (4.0, 2.0)
    """
    (w,) = columns(weights)
    sums = by_cluster(w, clusters)
    # Divided by the largest, because squares of small weights underflow.
    scaled = sums / sums.max() if sums.max() > 0 else sums
    squares = float(scaled @ scaled)
    return float(scaled.sum() ** 2 / squares) if squares > 0 else 0.0


def require_size(size: float, total: str, minimum: float = MIN_ESS) -> None:
    """Raise `unsupported_by_logging` unless an effective sample size is large enough."""
    # A policy on its own log has the size of its rows, up to rounding.
    if size <= 0 or size < minimum * (1 - 1e-9):
        message = f"the effective sample size is {size:.3g} of {total}, below {minimum:g}"
        raise Refusal("unsupported_by_logging", message)


def unsupported_share(probability: Floats, taken: Floats, context_share: Floats) -> float:
    """Return the share of evaluation probability on actions never taken in their context.

    Also the share by which the mean weight is too small (Sachdeva, Su and Joachims 2020). Arguments
    are of each context and action, shape (m,); `context_share` is the context's share of the log's
    rows.

    Example:
        >>> unsupported_share(np.array([0.75, 0.25]), np.array([10, 0]), np.ones(2))
        0.25
    """
    return float((probability * context_share * (taken == 0)).sum())


def diagnose(
    reward: ArrayLike,
    weights: ArrayLike,
    clusters: ArrayLike | None = None,
    unsupported: float | None = None,
) -> Diagnostics:
    """Return all diagnostics of a log for an evaluated policy; refuses as `columns` and `spread`.

    The mean weight is tested against t with clusters − 1 degrees of freedom (Saito et al. 2020; Li
    et al. 2015); without variance its p-value is 1 for a mean of 1, else 0. `unsupported` is None
    if the policy is known for logged actions only.

    Example:
        >>> diagnostics = diagnose([1, 0, 0, 1], [0.5, 1.5, 0.5, 1.5])
        >>> diagnostics.rewarded, round(diagnostics.ess, 6), diagnostics.max_weight
        (2, 3.2, 1.5)
    """
    r, w = columns(reward, weights)
    size, largest, mean = effective_size(w), float(w.max()), float(w.mean())
    varied = spread(mean, w - mean, clusters)
    se, p_value = 0.0, float(abs(mean - 1) <= 1e-9)
    if varied.se > 1e-9:
        se = varied.se
        p_value = effects.from_difference(1.0, mean, mean - 1, se, varied.units - 1).p_value
    return Diagnostics(
        rows=r.size,
        units=varied.units,
        rewarded=int(np.count_nonzero(r)),
        mean_weight=mean,
        mean_weight_se=se,
        mean_weight_p=p_value,
        max_weight=largest,
        weight_p99=float(np.quantile(w, 0.99)),
        ess=size,
        ess_share=size / r.size,
        ess_units=effective_size(w, clusters),
        accepted=float(w.sum()) / largest if largest > 0 else 0.0,
        unsupported=unsupported,
    )


def check_support(diagnostics: Diagnostics, min_ess: float = MIN_ESS) -> None:
    """Check that a log can support an estimate for the evaluated policy.

    Refusals: `unsupported_by_logging` if more than `MAX_UNSUPPORTED` of the evaluation probability
    lies on actions never taken, or if the effective sample size of rows or clusters is below
    `min_ess`; `weights_not_one` for a mean weight other than 1.

    Example:
        >>> check_support(diagnose([1, 0], [1.0, 1.0], unsupported=0.5), min_ess=2)
        Traceback (most recent call last):
        abeval.stats.records.Refusal: 50.0 % of the policy is on actions never taken
    """
    unsupported = diagnostics.unsupported
    if unsupported is not None and unsupported > MAX_UNSUPPORTED:
        message = f"{100 * unsupported:.1f} % of the policy is on actions never taken"
        raise Refusal("unsupported_by_logging", message)
    rows = (diagnostics.ess, diagnostics.rows, "rows")
    units = (diagnostics.ess_units, diagnostics.units, "units")
    size, count, noun = min(rows, units)
    require_size(size, f"{count} {noun}", min_ess)
    mean, se = diagnostics.mean_weight, diagnostics.mean_weight_se
    if diagnostics.mean_weight_p < MEAN_WEIGHT_ALPHA and abs(mean - 1) > MEAN_WEIGHT_SLACK:
        message = f"the weights average {mean:.3f} ± {se:.3f}, not 1: wrong propensities"
        raise Refusal("weights_not_one", message)
