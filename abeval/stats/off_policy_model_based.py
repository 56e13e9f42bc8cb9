"""The value a policy would have had, from the log of another: with a model of the reward.

Each row has, beside what `abeval.stats.off_policy` needs, the reward predicted for its logged
action and the reward expected in its context under the evaluated policy, Σ_a π(a)·q(a).

Predictions are estimates too. With `refit`, which says how rows move the predictions
(`CrossFit.influence` of `abeval.stats.off_policy_fit`), standard errors contain their error; DR
with cross-fitted predictions hardly needs it, estimators that cut the correction do, and the
direct method, all model, has no standard error without it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats.off_policy import effective_rewards, finite_rewards, positive
from abeval.stats.off_policy_interval import PolicyValue, by_cluster, from_influence
from abeval.stats.off_policy_weights import (
    MIN_ESS,
    columns,
    importance_weights,
    require_effective_size,
)
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]
Refit = Callable[[Floats], Floats]
"""From the coefficient of each row's residual to the influence of each row by the predictions."""


def direct_method(
    reward: ArrayLike,
    expected: ArrayLike,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
) -> PolicyValue:
    """Direct method: mean of the predicted rewards under the evaluated policy.

    As good as the model. Without `refit` it has neither standard error nor interval: the spread
    of predictions over rows says nothing of how wrong they are. With it, the interval is of the
    model's sampling error, not of its bias.

    Args:
        reward: What the predictions were fitted to, shape (n,).
        expected: Σ_a π(a)·q(a) in the context of each row, shape (n,).
        refit: How rows move the predictions.
        clusters: Whole-number ids of units, shape (n,).
        alpha: Error rate of the interval.

    Raises:
        Refusal: `inconsistent` when lengths differ; `not_finite`; `too_few_units`.

    Source:
        Dudik, Langford and Li (2011), section 2; Jaeckel (1972) for the infinitesimal jackknife.

    Example:
        >>> found = direct_method([1, 0, 1, 0], [0.5, 0.4, 0.5, 0.4])
        >>> round(found.value, 6), found.low, found.reason
        (0.45, None, 'model_error_unknown')
    """
    r, e = columns(finite_rewards(reward), finite_rewards(expected))
    value = float(e.mean())
    if refit is None:
        return PolicyValue(value, None, None, None, "none", "model_error_unknown")
    influence = e - value + refit(np.zeros_like(r))
    return from_influence(value, influence, clusters, alpha, float(np.count_nonzero(r)))


def doubly_robust(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """Doubly robust: the direct method, its error corrected by IPS of the residuals.

    Unbiased where either propensities or predictions are right; predictions of a row must not
    have been fitted to it (cross-fitting).

    Args:
        reward: Shape (n,).
        logging: Probability of the logged action under the log's policy, in (0, 1], shape (n,).
        evaluation: Probability of it under the evaluated policy, in [0, 1], shape (n,).
        predicted: Predicted reward q of the logged action, shape (n,).
        expected: Σ_a π(a)·q(a) in the context of each row, shape (n,).
        refit: How rows move the predictions; without, they count as known.
        clusters: Whole-number ids of units whose rows are not independent, shape (n,).
        alpha: Error rate of the interval.
        min_ess: Effective sample size, of rows and of clusters, below which it is refused.

    Raises:
        Refusal: `unsupported_by_logging`; `invalid_propensity`; `inconsistent`; `not_finite`;
            `too_few_units`.

    Source:
        Dudik, Langford and Li (2011); Chernozhukov et al. (2018) for cross-fitting.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> found = doubly_robust(clicks, uniform, np.tile([0.75, 0.25], 100), q, expected)
        >>> found.value, round(found.se, 4)
        (0.3125, 0.0379)
    """
    rows = _rows(reward, logging, evaluation, predicted, expected, clusters, min_ess)
    return _corrected(*rows, rows[1], refit, clusters, alpha)


def switch_dr(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
    threshold: float,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """SwitchDR: DR, without the correction where the weight is above a threshold.

    There it believes the model, so its interval needs `refit`, and is about an expectation that
    has the model's bias. Arguments, refusals as in `doubly_robust`; support is asked of all
    weights.

    Source:
        Wang, Agarwal and Dudik (2017).

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> switch_dr(clicks, uniform, evaluation, q, expected, threshold=1).value
        0.3125
    """
    rows = _rows(reward, logging, evaluation, predicted, expected, clusters, min_ess)
    w = rows[1]
    kept = np.where(w <= positive("threshold", threshold), w, 0.0)
    return _corrected(*rows, kept, refit, clusters, alpha)


def shrunk_dr(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
    shrinkage: float,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """DR with optimistic shrinkage (DRos): correction weights λw/(w² + λ).

    λ → ∞ is DR, λ → 0 the direct method; in between its interval needs `refit`, and is about an
    expectation with some of the model's bias. Arguments, refusals as in `doubly_robust`.

    Source:
        Su, Dimakopoulou, Krishnamurthy and Dudik (2020).

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> round(shrunk_dr(clicks, uniform, evaluation, q, expected, shrinkage=100).value, 6)
        0.312656
    """
    rows = _rows(reward, logging, evaluation, predicted, expected, clusters, min_ess)
    scale, w = positive("shrinkage", shrinkage), rows[1]
    # w/(w²/λ + 1) neither overflows for a large λ nor divides zero by zero.
    return _corrected(*rows, w / (w * w / scale + 1), refit, clusters, alpha)


def self_normalised_dr(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """DR whose correction is self-normalised: mean of expected + Σ w(r − q) / Σ w.

    The standard error counts the random denominator. Arguments, refusals as in `doubly_robust`.

    Source:
        Thomas and Brunskill (2016), weighted doubly robust, for one step.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> self_normalised_dr(clicks, uniform, evaluation, q, expected).value
        0.3125
    """
    r, w, q, e = _rows(reward, logging, evaluation, predicted, expected, clusters, min_ess)
    correction = float(w @ (r - q) / w.sum())
    share = w / w.mean()
    value = float(e.mean()) + correction
    influence = e - e.mean() + share * (r - q - correction)
    if refit is not None:
        influence = influence + refit(share)
    return from_influence(value, influence, clusters, alpha, effective_rewards(w, r))


def _rows(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
    clusters: ArrayLike | None,
    min_ess: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Rewards, weights, predictions and expectations, checked."""
    weights = importance_weights(logging, evaluation)
    r, w, q, e = columns(finite_rewards(reward), weights, predicted, expected)
    if not (np.isfinite(q).all() and np.isfinite(e).all()):
        raise Refusal("not_finite", "an infinite or missing prediction")
    by_cluster(w, clusters)
    require_effective_size(w, clusters, min_ess)
    return r, w, q, e


def _corrected(
    r: Floats,
    w: Floats,
    q: Floats,
    e: Floats,
    coefficient: Floats,
    refit: Refit | None,
    clusters: ArrayLike | None,
    alpha: float,
) -> PolicyValue:
    """Mean of e + c(r − q) with its interval."""
    rows = e + coefficient * (r - q)
    value = float(rows.mean())
    influence = rows - value
    if refit is not None:
        influence = influence + refit(coefficient)
    # Behind the model are all rewarded rows; behind the correction the effective ones.
    return from_influence(value, influence, clusters, alpha, effective_rewards(w, r))
