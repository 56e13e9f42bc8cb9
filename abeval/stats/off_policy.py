"""Estimate a policy's value from the log of another policy.

The weight w of a row is the probability of its action under the evaluated policy, divided by its
probability under the logging policy. The value is a mean reward per row. `estimate` has all
estimators by name; `cross_fit` makes the predictions that some of them need, never from the
predicted row. Standard errors follow from the influence of each row on an estimate, clustered by
unit if needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.distributions import check_alpha, two_sided_quantile
from abeval.stats.records import (
    Bools,
    Floats,
    Integers,
    Interval,
    Refusal,
    RefusalReason,
    check_finite,
)

MIN_ESS = 100.0
"""Smallest effective sample size: below it, intervals cover too little."""

# Largest share of evaluation probability on actions never taken.
_MAX_UNSUPPORTED = 0.05

# Propensities are wrong if the mean weight differs from 1 at this level and by more than this.
#
# The mean of skewed weights is below 1 more often than a t-test assumes.
_MEAN_WEIGHT_ALPHA, _MEAN_WEIGHT_SLACK = 1e-4, 0.05

MIN_REWARDS = 5.0
"""Smallest effective number of rewarded rows for an interval."""

# Prior rows with the overall mean reward, added to each action.
_PRIOR_ROWS = 50.0

_WEIGHTED = ("replay", "ips", "clipped_ips", "snips")
"""Estimators without a model of the reward."""

MODELLED = ("dm", "dr", "sndr", "switch_dr", "dros")
"""Estimators that need predictions."""

Refit = Callable[[Floats], Floats]
"""Each row's influence through the predictions, from the residuals' coefficients."""


class Spread(NamedTuple):
    """Standard error and skewness of an estimate, and its number of units."""

    se: float
    skewness: float
    units: int


class Diagnostics(NamedTuple):
    """How well a log supports the evaluation of another policy.

    `units` counts the clusters, or rows if there are none, and `clicks` the rows with a reward.
    `mean_weight` should be 1; its standard error is clustered, and its two-sided p-value tests
    this. `ess` is (Σw)²/Σw² over rows, `ess_units` over sums per cluster. `accepted` is the number
    of rows that rejection sampling at w / max w is expected to keep. `unsupported` is the share of
    evaluation probability on actions never taken; None if unknown.
    """

    rows: int
    units: int
    clicks: int
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


def compute_importance_weights(logging: ArrayLike, evaluation: ArrayLike) -> Floats:
    """Return evaluation / logging probabilities of the logged actions.

    Source: Horvitz and Thompson (1952).

    Refusals: `too_few_units` without rows; `inconsistent` when lengths differ; `invalid_propensity`
    for a logging probability outside (0, 1] or another outside [0, 1].

    Example:
        >>> compute_importance_weights([0.5, 0.25], [0.25, 1.0]).tolist()
        [0.5, 4.0]
    """
    logged, evaluated = check_columns(logging, evaluation)
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


def check_columns(*arrays: ArrayLike) -> tuple[Floats, ...]:
    """Return columns of doubles of equal length.

    Refusals: `inconsistent` unless all are one-dimensional and of equal length; `too_few_units` if
    they are empty.
    """
    doubles = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    if any(column.ndim != 1 for column in doubles) or len({column.size for column in doubles}) > 1:
        shapes = ", ".join(str(column.shape) for column in doubles)
        message = f"columns must be one-dimensional and of equal length: {shapes}"
        raise Refusal("inconsistent", message)
    if doubles[0].size == 0:
        raise Refusal("too_few_units", "the log has no rows")
    return doubles


def _sum_by_cluster(values: Floats, clusters: ArrayLike | None) -> Floats:
    """Sum values by cluster; without clusters return the values.

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
    """Return standard error and skewness from the rows' influence on a mean.

    The influence ψ is such that value − truth ≈ Σψ/n. For independent rows this is the delta
    method, sd(ψ)/√n with divisor n − 1. With clusters the variance is computed from sums per
    cluster, so rows of one unit may be correlated in any way (Huber 1967; Liang and Zeger 1986). A
    standard error below the value's rounding error counts as zero. Refusals: `too_few_units` below
    two clusters; `not_finite`.

    Example:
        >>> rewards = np.array([1.0, 0.0, 1.0, 0.0])
        >>> round(spread(0.5, rewards - 0.5).se, 6)
        0.288675
        >>> round(spread(0.5, rewards - 0.5, clusters=[1, 2, 1, 2]).se, 6)
        0.5
    """
    sums = _sum_by_cluster(influence, clusters)
    if sums.size < 2:
        raise Refusal("too_few_units", f"a variance needs at least two units, got {sums.size}")
    check_finite(sums, "an estimate or its variance is not finite")
    centred = sums - sums.mean()
    second = float((centred**2).mean())
    se = math.sqrt(second / (sums.size - 1)) * sums.size / influence.size
    if se <= 1e-12 * abs(value):
        return Spread(0.0, 0.0, sums.size)
    third = float(((centred / math.sqrt(second)) ** 3).mean()) if second > 0 else 0.0
    return Spread(se, third, sums.size)


def estimate_effective_size(weights: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Return the effective sample size (Σw)² / Σw² (Kong 1992).

    If there are clusters, w are the sums of weights per cluster. The size is n for equal weights,
    about 1 if one weight dominates, and 0 if all weights are 0.

    Example:
        >>> weights, clusters = [1, 1, 1, 1], [7, 7, 9, 9]
        >>> estimate_effective_size(weights), estimate_effective_size(weights, clusters)
        (4.0, 2.0)
    """
    (w,) = check_columns(weights)
    sums = _sum_by_cluster(w, clusters)
    # Divided by the largest, because squares of small weights underflow.
    scaled = sums / sums.max() if sums.max() > 0 else sums
    squares = float(scaled @ scaled)
    return float(scaled.sum() ** 2 / squares) if squares > 0 else 0.0


def _require_size(size: float, total: str, minimum: float = MIN_ESS) -> None:
    """Raise `unsupported_by_logging` unless an effective sample size is large enough."""
    # A policy on its own log has the size of its rows, up to rounding.
    if size <= 0 or size < minimum * (1 - 1e-9):
        message = f"the effective sample size is {size:.3g} of {total}, below {minimum:g}"
        raise Refusal("unsupported_by_logging", message)


def sum_unsupported_share(probability: Floats, taken: Floats, context_share: Floats) -> float:
    """Return the share of evaluation probability on actions never logged.

    The mean weight is too small by the same share (Sachdeva, Su and Joachims 2020). Arguments have
    one entry per context and action, shape (m,). `context_share` is the context's share of the
    log's rows.

    Example:
        >>> sum_unsupported_share(np.array([0.75, 0.25]), np.array([10, 0]), np.ones(2))
        0.25
    """
    return float((probability * context_share * (taken == 0)).sum())


def diagnose(
    reward: ArrayLike,
    weights: ArrayLike,
    clusters: ArrayLike | None = None,
    unsupported: float | None = None,
) -> Diagnostics:
    """Return how well a log supports a policy; refuses as `columns` and `spread`.

    The mean weight is tested against t with clusters − 1 degrees of freedom (Saito et al. 2020; Li
    et al. 2015); without variance its p-value is 1 for a mean of 1, else 0. `unsupported` is None
    if the policy is known for logged actions only.

    Example:
        >>> diagnostics = diagnose([1, 0, 0, 1], [0.5, 1.5, 0.5, 1.5])
        >>> diagnostics.clicks, round(diagnostics.ess, 6), diagnostics.max_weight
        (2, 3.2, 1.5)
    """
    r, w = check_columns(reward, weights)
    size, largest, mean = estimate_effective_size(w), float(w.max()), float(w.mean())
    varied = spread(mean, w - mean, clusters)
    se, p_value = 0.0, float(abs(mean - 1) <= 1e-9)
    if varied.se > 1e-9:
        se = varied.se
        p_value = effects.effect_from_difference(1.0, mean, mean - 1, se, varied.units - 1).p_value
    return Diagnostics(
        rows=r.size,
        units=varied.units,
        clicks=int(np.count_nonzero(r)),
        mean_weight=mean,
        mean_weight_se=se,
        mean_weight_p=p_value,
        max_weight=largest,
        weight_p99=float(np.quantile(w, 0.99)),
        ess=size,
        ess_share=size / r.size,
        ess_units=estimate_effective_size(w, clusters),
        accepted=float(w.sum()) / largest if largest > 0 else 0.0,
        unsupported=unsupported,
    )


def check_support(diagnostics: Diagnostics, min_ess: float = MIN_ESS) -> None:
    """Check that a log can support an estimate for the evaluated policy.

    Refusals: `unsupported_by_logging` if more than `_MAX_UNSUPPORTED` of the evaluation probability
    lies on actions never taken, or if the effective sample size of rows or clusters is below
    `min_ess`; `weights_not_one` for a mean weight other than 1.

    Example:
        >>> check_support(diagnose([1, 0], [1.0, 1.0], unsupported=0.5), min_ess=2)
        Traceback (most recent call last):
        abeval.stats.records.Refusal: 50.0 % of the policy is on actions never taken
    """
    unsupported = diagnostics.unsupported
    if unsupported is not None and unsupported > _MAX_UNSUPPORTED:
        message = f"{100 * unsupported:.1f} % of the policy is on actions never taken"
        raise Refusal("unsupported_by_logging", message)
    rows = (diagnostics.ess, diagnostics.rows, "rows")
    units = (diagnostics.ess_units, diagnostics.units, "units")
    size, count, noun = min(rows, units)
    _require_size(size, f"{count} {noun}", min_ess)
    mean, se = diagnostics.mean_weight, diagnostics.mean_weight_se
    if diagnostics.mean_weight_p < _MEAN_WEIGHT_ALPHA and abs(mean - 1) > _MEAN_WEIGHT_SLACK:
        message = f"the weights average {mean:.3f} ± {se:.3f}, not 1: wrong propensities"
        raise Refusal("weights_not_one", message)


class Rows(NamedTuple):
    """A log, and the evaluated policy's probabilities, shape (n,) each.

    Attributes:
        logging: Probability of the logged action under the logging policy, in (0, 1].
        evaluation: Its probability under the evaluated policy, in [0, 1].
        clusters: Integer ids of units whose rows are not independent; None if all rows are.
        predicted: Predicted reward q of the logged action, not fitted to the row.
        expected: Σ_a π(a)·q(a) in the context of the row.
        refit: `CrossFit.influence`: with it, standard errors include the error of the predictions.
    """

    reward: ArrayLike
    logging: ArrayLike
    evaluation: ArrayLike
    clusters: ArrayLike | None = None
    predicted: ArrayLike | None = None
    expected: ArrayLike | None = None
    refit: Refit | None = None


class PolicyValue(NamedTuple):
    """A policy's estimated mean reward per row, with its interval.

    Standard error and interval are None if they do not exist. `reason` says why there is no
    interval. `method` is the interval's id.
    """

    value: float
    se: float | None
    low: float | None
    high: float | None
    method: str
    reason: RefusalReason | None = None


def estimate(
    name: str, rows: Rows, option: float = 1.0, *, alpha: float = 0.05, min_ess: float = MIN_ESS
) -> PolicyValue:
    """Estimate the value of a policy.

    - `ips`: mean of w·r, unbiased if the logging policy has full support (Horvitz and Thompson
      1952; Strehl, Langford, Li and Kakade 2010).
    - `clipped_ips`: mean of min(w, option)·r. Less variance, biased downward for positive rewards;
      the interval covers the estimator's expectation (Ionides 2008).
    - `snips`: Σ w·r / Σ w, always within the range of the rewards (Hajek 1971; Swaminathan and
      Joachims 2015).
    - `replay`: Σ πr / Σ π, the mean reward of rows whose action the policy draws, over all draws;
      logging must be uniform (Li, Chu, Langford and Wang 2011).
    - `dm`: mean of the predicted rewards, as biased as the model (Dudik, Langford and Li 2011). It
      has no standard error without `refit`, and uses no propensities.
    - `dr`: `dm` corrected by IPS of the residuals, unbiased if either the propensities or the
      predictions are right (Dudik, Langford and Li 2011; Chernozhukov et al. 2018).
    - `sndr`: mean of expected + Σ w(r − q) / Σ w (Thomas and Brunskill 2016, for one step).
    - `switch_dr`: `dr` without correction of rows with w above `option` (Wang, Agarwal and Dudik
      2017).
    - `dros`: `dr` with correction weights λw/(w² + λ), λ = `option` (Su et al. 2020).

    There is no interval if nothing varies or fewer than five effective rows are rewarded. `min_ess`
    is the least effective sample size of rows and of clusters, before any clipping.

    Raises:
        Refusal: `unsupported_by_logging`; `invalid_propensity`; `inconsistent` when lengths
            differ; `not_finite`; `too_few_units`; `not_applicable` without predictions.
        ValueError: The estimator is unknown, or its option is not above 0.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> rows = Rows(clicks, uniform, np.tile([0.75, 0.25], 100))
        >>> estimated = estimate("snips", rows)
        >>> estimated.value, round(estimated.se, 4)
        (0.375, 0.0399)
    """
    if name not in (*_WEIGHTED, *MODELLED) or not option > 0:
        raise ValueError(f"no estimator {name!r}, or its option {option} is not above 0")
    reward = check_finite(
        rows.reward, "an infinite or missing reward; drop its row or fill it first"
    )
    r, w = check_columns(reward, _weigh_rows(name, rows))
    q, e = _check_predictions(rows) if name in MODELLED else (np.zeros_like(r), np.zeros_like(r))
    check_columns(r, q, e)
    if name != "dm":
        size = estimate_effective_size(w)
        if rows.clusters is not None:
            size = min(size, estimate_effective_size(w, rows.clusters))
        _require_size(size, f"{w.size} rows", min_ess)
    if name == "clipped_ips":
        w = np.minimum(w, option)
    value, influence, coefficient = _estimate_value(name, r, w, q, e, option)
    if name in MODELLED and rows.refit is not None:
        influence = influence + rows.refit(coefficient)
    elif name == "dm":
        return PolicyValue(value, None, None, None, "none", "model_error_unknown")
    # The model rests on all rewarded rows, the correction on the effective ones only.
    effective = (
        estimate_effective_size(np.abs(w * r)) if name != "dm" else float(np.count_nonzero(r))
    )
    return value_from_influence(value, influence, rows.clusters, alpha, effective)


def _weigh_rows(name: str, rows: Rows) -> Floats:
    """Return the weights of an estimator; the direct method uses no propensities."""
    if name == "dm":
        return np.zeros(np.shape(rows.reward))
    weights = compute_importance_weights(rows.logging, rows.evaluation)
    if name != "replay":
        return weights
    p = np.asarray(rows.logging, dtype=np.float64)
    if not np.ptp(p) <= 1e-9 * p.max():
        message = "replay is right only where every action was logged with one probability"
        range_ = f"here it ranges from {p.min():.3g} to {p.max():.3g}: use SNIPS"
        raise Refusal("unsupported_by_logging", f"{message}; {range_}")
    return np.asarray(rows.evaluation, dtype=np.float64)


def _check_predictions(rows: Rows) -> tuple[Floats, Floats]:
    if rows.predicted is None or rows.expected is None:
        message = "needs the whole policy; a column has it only for the items shown"
        raise Refusal("not_applicable", message)
    wrong = "an infinite or missing prediction"
    return check_finite(rows.predicted, wrong), check_finite(rows.expected, wrong)


def _estimate_value(
    name: str, r: Floats, w: Floats, q: Floats, e: Floats, option: float
) -> tuple[float, Floats, Floats]:
    """Return the value, each row's influence, and each residual's coefficient.

    Without a model, all predictions are 0.
    """
    if name in ("snips", "replay"):
        value = float((w @ r) / w.sum())
        return value, w * (r - value) / w.mean(), w
    if name == "sndr":
        correction = float(w @ (r - q) / w.sum())
        share = w / w.mean()
        influence = e - e.mean() + share * (r - q - correction)
        return float(e.mean()) + correction, influence, share
    coefficient = w
    if name == "switch_dr":
        coefficient = np.where(w <= option, w, 0.0)
    elif name == "dros":
        # w/(w²/λ + 1) neither overflows for a large λ nor divides zero by zero.
        coefficient = w / (w * w / option + 1)
    corrected = e + coefficient * (r - q)
    value = float(corrected.mean())
    return value, corrected - value, coefficient


def value_from_influence(
    value: float, influence: Floats, clusters: ArrayLike | None, alpha: float, rewards: float
) -> PolicyValue:
    """Build a value with its interval from the influence of each row.

    There is no interval if nothing varies (`zero_variance`: a log without a click does not prove a
    rate of zero), or fewer than `MIN_REWARDS` rewarded rows are effectively behind the value.

    Example:
        >>> rewards = np.tile([1.0, 0.0], 50)
        >>> estimated = value_from_influence(0.5, rewards - 0.5, None, 0.05, 50)
        >>> round(estimated.low, 4), round(estimated.high, 4), estimated.method
        (0.4003, 0.5997, 'delta_hall')
    """
    varied = spread(value, influence, clusters)
    method = "delta_hall" if clusters is None else "clustered_delta_hall"
    if varied.se == 0:
        return PolicyValue(value, 0.0, None, None, method, "zero_variance")
    if rewards < MIN_REWARDS:
        return PolicyValue(value, varied.se, None, None, method, "too_few_rewards")
    return PolicyValue(value, varied.se, *compute_skewed_interval(value, varied, alpha), method)


def compute_skewed_interval(value: float, varied: Spread, alpha: float = 0.05) -> Interval:
    """Return the delta-method interval, corrected for skewness (Hall 1992).

    Rare rewards and large weights make estimates skewed (docs/methods.md). Without skewness, or
    with many units, it is the t interval.

    Example:
        >>> low, high = compute_skewed_interval(0.5, Spread(0.1, 20.0, 10_000))
        >>> round(low, 4), round(high, 4)
        (0.3278, 0.7339)
    """
    check_alpha(alpha)
    t = two_sided_quantile(alpha, varied.units - 1)
    a = varied.skewness / math.sqrt(varied.units)
    return Interval(value - varied.se * _invert_hall(t, a), value - varied.se * _invert_hall(-t, a))


def _invert_hall(t: float, a: float) -> float:
    """Invert Hall's transformation g(T) = T + aT²/3 + a²T³/27 + a/6."""
    if abs(a) < 1e-6:
        return t
    return float(3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1))


class Policy(NamedTuple):
    """Positive probabilities of actions by context, as codes from 0."""

    context: Integers
    action: Integers
    probability: Floats


def check_policy(policy: Policy, context: Integers) -> None:
    """Check that a policy is a distribution over actions in every context of the log.

    Refusals: `inconsistent` if probabilities do not sum to 1 (to 1e-6); `invalid_propensity` if one
    is not in [0, 1].

    Example:
        >>> zero = np.array([0])
        >>> check_policy(Policy(zero, zero, np.array([0.5])), zero)
        Traceback (most recent call last):
        abeval.stats.records.Refusal: the policy sums to 0.5 in a context of the log, not to 1
    """
    if not ((policy.probability >= 0) & (policy.probability <= 1)).all():
        raise Refusal("invalid_propensity", "a probability of the policy is not in [0, 1]")
    totals = np.bincount(policy.context, policy.probability, int(context.max()) + 1)
    used = totals[np.unique(context)]
    if not np.allclose(used, 1, rtol=0, atol=1e-6):
        worst = float(used[np.abs(used - 1).argmax()])
        message = f"the policy sums to {worst:.6g} in a context of the log, not to 1"
        raise Refusal("inconsistent", message)


class CrossFit(NamedTuple):
    """Cross-fitted reward predictions, by fold and action and by row.

    Attributes:
        q: Predicted reward, fitted outside the fold.
        predicted: q of each row's action.
        expected: Σ_a π(a)·q(a) in each row's context.
        influence: Influence of each row on mean(expected + c(r − q)) through the predictions, from
            c. Zero on average, except for the prior rows. The infinitesimal jackknife of Jaeckel
            (1972): the derivative by the weight of a row, through every q that was fitted to it.
    """

    q: Floats
    predicted: Floats
    expected: Floats
    influence: Refit


def cross_fit(
    reward: Floats,
    action: Integers,
    context: Integers,
    fold: Integers,
    policy: Policy,
    prior_rows: float = _PRIOR_ROWS,
) -> CrossFit:
    """Fit the mean reward per action on the other folds, with shrinkage.

    q(a) = (Σ r of a + k·mean) / (rows of a + k), k = `prior_rows`; the context is ignored. James
    and Stein (1961) for shrinkage; Chernozhukov et al. (2018) for cross-fitting. Actions, contexts
    and folds are codes from 0 of each row; no unit is in two folds. Refusals: `too_few_units`
    without rows outside a fold.

    Example:
        >>> action, fold, none = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.zeros(4, int)
        >>> policy = Policy(np.array([0, 0]), np.array([0, 1]), np.array([0.5, 0.5]))
        >>> fit = cross_fit(np.array([1.0, 0.0, 1.0, 1.0]), action, none, fold, policy, 1)
        >>> fit.q.tolist()
        [[1.0, 1.0], [0.75, 0.25]]
    """
    folds = int(fold.max()) + 1
    actions = int(max(action.max(), np.max(policy.action, initial=0))) + 1
    cells = fold * actions + action
    rows = np.bincount(cells, minlength=folds * actions).reshape(folds, actions)
    sums = np.bincount(cells, reward, folds * actions).reshape(folds, actions)
    outside = rows.sum() - rows.sum(axis=1)
    if folds < 2 or not outside.all():
        raise Refusal("too_few_units", "cross-fitting needs rows in two folds")
    mean = (sums.sum() - sums.sum(axis=1)) / outside
    mass = rows.sum(axis=0) - rows + prior_rows
    numerator = sums.sum(axis=0) - sums + prior_rows * mean[:, None]
    # Without prior rows, an action that is absent outside the fold is predicted the overall mean.
    q = np.divide(numerator, mass, out=np.repeat(mean[:, None], actions, axis=1), where=mass > 0)
    contexts = int(max(context.max(), np.max(policy.context, initial=0))) + 1
    expected, demand = np.empty((folds, contexts)), np.empty((folds, actions))
    for f in range(folds):
        in_context = np.bincount(context[fold == f], minlength=contexts)
        p = policy.probability
        expected[f] = np.bincount(policy.context, p * q[f][policy.action], contexts)
        demand[f] = np.bincount(policy.action, p * in_context[policy.context], actions)

    def influence(coefficient: Floats) -> Floats:
        used = np.bincount(cells, coefficient, folds * actions).reshape(folds, actions)
        slope, total = demand - used, np.zeros_like(reward)
        per_row = np.divide(slope, mass, out=np.zeros_like(slope), where=mass > 0)
        for f in range(folds):
            others = fold != f
            of_action = per_row[f][action] * (reward - q[f][action])
            # Without prior rows, actions that are absent outside are predicted the mean.
            of_mean = prior_rows * per_row[f].sum() + slope[f][mass[f] == 0].sum()
            of_prior = of_mean * (reward - mean[f])
            total += np.where(others, of_action + of_prior / others.sum(), 0.0)
        return total

    return CrossFit(q, q[fold, action], expected[fold, context], influence)
