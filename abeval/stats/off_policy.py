"""Value of a policy from the log of another policy: importance weighting, and models of the reward.

The weight w of a row is the probability of its action under the evaluated policy, over that under
the logging policy. The value is a mean reward per row. `estimate` has all estimators by name;
`cross_fit` makes the predictions that some of them need, never from the predicted row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.distributions import check_alpha, two_sided_quantile
from abeval.stats.off_policy_support import (
    MIN_ESS,
    Spread,
    columns,
    effective_size,
    importance_weights,
    require_size,
    spread,
)
from abeval.stats.records import Floats, Integers, Interval, Refusal, RefusalReason, finite

MIN_REWARDS = 5.0
"""Least effective number of rewarded rows for an interval."""

PRIOR_ROWS = 50.0
"""Rows with the overall mean reward that are added to the rows of every action."""

WEIGHTED = ("replay", "ips", "clipped_ips", "snips")
"""Estimators without a model of the reward."""

MODELLED = ("dm", "dr", "sndr", "switch_dr", "dros")
"""Estimators that need predictions."""

Refit = Callable[[Floats], Floats]
"""Influence of each row through the predictions, from the coefficient of each row's residual."""


class Rows(NamedTuple):
    """A log, and what the evaluated policy would do there, one entry per row, shape (n,) each.

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
    """An estimated value of a policy: its mean reward per row, in the unit of the reward.

    Attributes:
        se: Standard error; None if unknown.
        low: Lower end of the interval; None without an interval.
        high: Upper end; None without an interval.
        method: Id of the method of the interval.
        reason: Why there is no interval; None if there is one.
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
    - `switch_dr`: `dr` without correction where w is above `option` (Wang, Agarwal and Dudik 2017).
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
        >>> estimate("clipped_ips", rows, 1.0).value
        0.25
    """
    if name not in (*WEIGHTED, *MODELLED) or not option > 0:
        raise ValueError(f"no estimator {name!r}, or its option {option} is not above 0")
    reward = finite(rows.reward, "an infinite or missing reward; drop its row or fill it first")
    r, w = columns(reward, _weights(name, rows))
    q, e = _predictions(rows) if name in MODELLED else (np.zeros_like(r), np.zeros_like(r))
    columns(r, q, e)
    if name != "dm":
        size = effective_size(w)
        if rows.clusters is not None:
            size = min(size, effective_size(w, rows.clusters))
        require_size(size, f"{w.size} rows", min_ess)
    if name == "clipped_ips":
        w = np.minimum(w, option)
    value, influence, coefficient = _valued(name, r, w, q, e, option)
    if name in MODELLED and rows.refit is not None:
        influence = influence + rows.refit(coefficient)
    elif name == "dm":
        return PolicyValue(value, None, None, None, "none", "model_error_unknown")
    # The model rests on all rewarded rows, the correction on the effective ones only.
    effective = effective_size(np.abs(w * r)) if name != "dm" else float(np.count_nonzero(r))
    return from_influence(value, influence, rows.clusters, alpha, effective)


def _weights(name: str, rows: Rows) -> Floats:
    """Return the weights of an estimator; the direct method uses no propensities."""
    if name == "dm":
        return np.zeros(np.shape(rows.reward))
    weights = importance_weights(rows.logging, rows.evaluation)
    if name != "replay":
        return weights
    p = np.asarray(rows.logging, dtype=np.float64)
    if not np.ptp(p) <= 1e-9 * p.max():
        message = "replay is right only where every action was logged with one probability"
        range_ = f"here it ranges from {p.min():.3g} to {p.max():.3g}: use SNIPS"
        raise Refusal("unsupported_by_logging", f"{message}; {range_}")
    return np.asarray(rows.evaluation, dtype=np.float64)


def _predictions(rows: Rows) -> tuple[Floats, Floats]:
    if rows.predicted is None or rows.expected is None:
        message = "needs the whole policy; a column has it only for the items shown"
        raise Refusal("not_applicable", message)
    wrong = "an infinite or missing prediction"
    return finite(rows.predicted, wrong), finite(rows.expected, wrong)


def _valued(
    name: str, r: Floats, w: Floats, q: Floats, e: Floats, option: float
) -> tuple[float, Floats, Floats]:
    """Return a value, the influence of each row with known predictions, and its coefficient.

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


def from_influence(
    value: float, influence: Floats, clusters: ArrayLike | None, alpha: float, rewards: float
) -> PolicyValue:
    """Return a value with its standard error and interval, from the influence of each row.

    There is no interval if nothing varies (`zero_variance`: a log without a click does not prove a
    rate of zero), or fewer than `MIN_REWARDS` rewarded rows are effectively behind the value.

    Example:
        >>> rewards = np.tile([1.0, 0.0], 50)
        >>> estimated = from_influence(0.5, rewards - 0.5, None, 0.05, 50)
        >>> round(estimated.low, 4), round(estimated.high, 4), estimated.method
        (0.4003, 0.5997, 'delta_hall')
    """
    varied = spread(value, influence, clusters)
    method = "delta_hall" if clusters is None else "clustered_delta_hall"
    if varied.se == 0:
        return PolicyValue(value, 0.0, None, None, method, "zero_variance")
    if rewards < MIN_REWARDS:
        return PolicyValue(value, varied.se, None, None, method, "too_few_rewards")
    return PolicyValue(value, varied.se, *skewed_interval(value, varied, alpha), method)


def skewed_interval(value: float, varied: Spread, alpha: float = 0.05) -> Interval:
    """Return the delta method's interval, corrected for skewness by a cubic map (Hall 1992).

    Rare rewards and large weights make estimates skewed (docs/off-policy.md). Without skewness, or
    with many units, it is the t interval.

    Example:
        >>> low, high = skewed_interval(0.5, Spread(0.1, 20.0, 10_000))
        >>> round(low, 4), round(high, 4)
        (0.3278, 0.7339)
    """
    check_alpha(alpha)
    t = two_sided_quantile(alpha, varied.units - 1)
    a = varied.skewness / math.sqrt(varied.units)
    return Interval(value - varied.se * _unskewed(t, a), value - varied.se * _unskewed(-t, a))


def _unskewed(t: float, a: float) -> float:
    """Invert Hall's transformation g(T) = T + aT²/3 + a²T³/27 + a/6."""
    if abs(a) < 1e-6:
        return t
    return float(3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1))


class Policy(NamedTuple):
    """Probabilities of actions by context, both as codes from 0, where they are positive."""

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


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Predictions for a log, and what their influence function needs, by row, fold or both.

    Attributes:
        q: Predicted reward per fold and action, fitted outside the fold, shape (folds, actions).
        predicted: q of each row's action, shape (n,).
        expected: Σ_a π(a)·q(a) in each row's context, shape (n,).
        mean: Mean reward outside each fold, shape (folds,).
        mass: Rows and prior rows behind each q, shape (folds, actions).
        demand: Sum over the rows of a fold of the policy's probability of an action, shape
            (folds, actions).
    """

    q: Floats
    predicted: Floats
    expected: Floats
    reward: Floats
    action: Integers
    fold: Integers
    mean: Floats
    mass: Floats
    demand: Floats
    prior_rows: float

    def influence(self, coefficient: Floats) -> Floats:
        """Return the influence of each row on mean(expected + c(r − q)) through the predictions.

        Zero on average, except for the prior rows. The infinitesimal jackknife of Jaeckel (1972):
        the derivative of the estimate by the weight of a row, through every q that was fitted to
        the row.
        """
        folds, actions = self.q.shape
        cells = self.fold * actions + self.action
        used = np.bincount(cells, coefficient, folds * actions).reshape(folds, actions)
        slope = self.demand - used
        influence = np.zeros_like(self.reward)
        for f in range(folds):
            per_row = np.divide(
                slope[f], self.mass[f], out=np.zeros(actions), where=self.mass[f] > 0
            )
            outside = self.fold != f
            of_action = per_row[self.action] * (self.reward - self.q[f][self.action])
            # Without prior rows, actions that are absent outside are predicted the mean.
            of_mean = self.prior_rows * per_row.sum() + slope[f][self.mass[f] == 0].sum()
            of_prior = of_mean * (self.reward - self.mean[f])
            influence += np.where(outside, of_action + of_prior / outside.sum(), 0.0)
        return influence


def cross_fit(
    reward: Floats,
    action: Integers,
    context: Integers,
    fold: Integers,
    policy: Policy,
    prior_rows: float = PRIOR_ROWS,
) -> CrossFit:
    """Fit the mean reward per action, shrunk to the overall mean, on the other folds.

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
        >>> fit.predicted.tolist(), fit.expected.tolist()
        ([1.0, 1.0, 0.75, 0.25], [1.0, 1.0, 0.5, 0.5])
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
    predicted, of_rows = q[fold, action], expected[fold, context]
    return CrossFit(q, predicted, of_rows, reward, action, fold, mean, mass, demand, prior_rows)
