"""Value of a policy from the log of another policy, with a model of the reward.

In addition to the columns of `abeval.stats.off_policy`, each row has the predicted reward q of its
logged action, and the expected reward in its context under the evaluated policy, Σ_a π(a)·q(a).

Predictions are estimates too. `refit` is the influence of the rows on the predictions
(`CrossFit.influence` of `abeval.stats.off_policy`); with it, standard errors include the error
of the predictions. DR with cross-fitted predictions hardly needs it. Estimators that reduce the
correction do, and the direct method, which has no correction, has no standard error without it.

`off_policy/estimates.py` is the caller.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.off_policy import (
    PolicyValue,
    effective_rewards,
    finite_rewards,
    from_influence,
    positive,
    weighted_rows,
)
from abeval.stats.off_policy_support import MIN_ESS, columns
from abeval.stats.records import Floats

Refit = Callable[[Floats], Floats]
"""Influence of each row through the predictions, from the coefficient of each row's residual."""


def direct_method(
    reward: ArrayLike,
    expected: ArrayLike,
    *,
    refit: Refit | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
) -> PolicyValue:
    """Direct method: mean of the predicted rewards under the evaluated policy.

    It is as biased as the model. Without `refit` it has neither standard error nor interval,
    because the spread of predictions over rows does not measure their error. With it, the interval
    covers the sampling error of the model, not its bias (Dudik, Langford and Li 2011, section 2;
    Jaeckel 1972 for the infinitesimal jackknife).

    Args:
        reward: Rewards that the predictions were fitted to, shape (n,).
        expected: Σ_a π(a)·q(a) in the context of each row, shape (n,).
        refit: Influence of the rows on the predictions.
        clusters: Integer ids of units, shape (n,).
        alpha: Error rate of the interval.

    Raises:
        Refusal: `inconsistent` when lengths differ; `not_finite`; `too_few_units`.

    Example:
        >>> estimated = direct_method([1, 0, 1, 0], [0.5, 0.4, 0.5, 0.4])
        >>> round(estimated.value, 6), estimated.low, estimated.reason
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
    """Doubly robust: the direct method, corrected by IPS of the residuals.

    Unbiased if either the propensities or the predictions are right (Dudik, Langford and Li 2011).
    The prediction of a row must not have been fitted to it: cross-fitting, Chernozhukov et al.
    (2018).

    Args:
        reward: Reward of each row, shape (n,).
        logging: Probability of the logged action under the logging policy, in (0, 1], shape (n,).
        evaluation: Its probability under the evaluated policy, in [0, 1], shape (n,).
        predicted: Predicted reward q of the logged action, shape (n,).
        expected: Σ_a π(a)·q(a) in the context of each row, shape (n,).
        refit: Influence of the rows on the predictions; without it, predictions count as known.
        clusters: Integer ids of units whose rows are not independent, shape (n,).
        alpha: Error rate of the interval.
        min_ess: Least effective sample size of rows and of clusters.

    Raises:
        Refusal: `unsupported_by_logging`; `invalid_propensity`; `inconsistent`; `not_finite`;
            `too_few_units`.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> estimated = doubly_robust(clicks, uniform, evaluation, q, expected)
        >>> estimated.value, round(estimated.se, 4)
        (0.3125, 0.0379)
    """
    rows = weighted_rows(reward, logging, evaluation, clusters, min_ess, predicted, expected)
    return _corrected(rows, rows[1], refit, clusters, alpha)


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
    """SwitchDR (Wang, Agarwal and Dudik 2017): no correction where the weight is above a threshold.

    Those rows rely on the model, so the interval needs `refit`, and it covers an expectation that
    has the model's bias. Arguments and refusals as in `doubly_robust`; the effective sample size
    is that of all weights.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> switch_dr(clicks, uniform, evaluation, q, expected, threshold=1).value
        0.3125
    """
    rows = weighted_rows(reward, logging, evaluation, clusters, min_ess, predicted, expected)
    w = rows[1]
    coefficient = np.where(w <= positive("threshold", threshold), w, 0.0)
    return _corrected(rows, coefficient, refit, clusters, alpha)


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
    """DR with optimistic shrinkage (DRos; Su et al. 2020): correction weights λw/(w² + λ).

    λ → ∞ is DR, λ → 0 the direct method. In between, the interval needs `refit` and covers an
    expectation with part of the model's bias. Arguments and refusals as in `doubly_robust`.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> round(shrunk_dr(clicks, uniform, evaluation, q, expected, shrinkage=100).value, 6)
        0.312656
    """
    rows = weighted_rows(reward, logging, evaluation, clusters, min_ess, predicted, expected)
    scale, w = positive("shrinkage", shrinkage), rows[1]
    # w/(w²/λ + 1) neither overflows for a large λ nor divides zero by zero.
    return _corrected(rows, w / (w * w / scale + 1), refit, clusters, alpha)


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
    """DR with a self-normalised correction: mean of expected + Σ w(r − q) / Σ w.

    The weighted doubly robust estimator of Thomas and Brunskill (2016), for one step. The standard
    error includes the random denominator. Arguments and refusals as in `doubly_robust`.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> q, expected = np.tile([0.5, 0.25], 100), np.full(200, 0.375)
        >>> evaluation = np.tile([0.75, 0.25], 100)
        >>> self_normalised_dr(clicks, uniform, evaluation, q, expected).value
        0.3125
    """
    rows = weighted_rows(reward, logging, evaluation, clusters, min_ess, predicted, expected)
    r, w, q, e = rows
    correction = float(w @ (r - q) / w.sum())
    share = w / w.mean()
    value = float(e.mean()) + correction
    influence = e - e.mean() + share * (r - q - correction)
    if refit is not None:
        influence = influence + refit(share)
    return from_influence(value, influence, clusters, alpha, effective_rewards(w, r))


def _corrected(
    rows: tuple[Floats, ...],
    coefficient: Floats,
    refit: Refit | None,
    clusters: ArrayLike | None,
    alpha: float,
) -> PolicyValue:
    """Mean of e + c(r − q) with its interval, c being the coefficient of each row."""
    r, w, q, e = rows
    corrected = e + coefficient * (r - q)
    value = float(corrected.mean())
    influence = corrected - value
    if refit is not None:
        influence = influence + refit(coefficient)
    # The model rests on all rewarded rows, the correction on the effective ones only.
    return from_influence(value, influence, clusters, alpha, effective_rewards(w, r))
