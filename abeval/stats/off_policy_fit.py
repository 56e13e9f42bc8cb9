"""A model of the reward: cross-fitted means per action, never fitted to the predicted row.

`off_policy/estimates.py` hands over rewards and a `Policy` that `off_policy/log.py` read; the
predictions go to `stats/off_policy_model_based.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.off_policy import finite_rewards
from abeval.stats.records import Floats, Integers, Refusal

PRIOR_ROWS = 50.0
"""Rows with the overall mean reward that are added to the rows of every action."""


class Policy(NamedTuple):
    """Probabilities of actions by context, one entry per pair with a positive probability.

    Attributes:
        context: Codes from 0, shape (m,).
        action: Codes from 0, shape (m,).
        probability: Sums to 1 in each context, shape (m,).
    """

    context: ArrayLike
    action: ArrayLike
    probability: ArrayLike


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Predictions for a log, and what their influence function needs.

    Attributes:
        q: Predicted reward per fold and action, fitted outside the fold, shape (folds, actions).
        predicted: q of each row's action, shape (n,).
        expected: Σ_a π(a)·q(a) in each row's context, shape (n,).
        reward: Reward of each row, shape (n,).
        action: Action of each row, shape (n,).
        fold: Fold of each row, shape (n,).
        mean: Mean reward outside each fold, shape (folds,).
        mass: Rows and prior rows behind each q, shape (folds, actions).
        demand: Sum over the rows of a fold of the policy's probability of an action, shape
            (folds, actions).
        prior_rows: Prior rows of the fit.
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
        """Influence of each row on mean(expected + c(r − q)) through the fitted predictions.

        Shape (n,); zero on average, except for the prior rows. The infinitesimal jackknife of
        Jaeckel (1972): the derivative of the estimate by the weight of a row, through every q that
        was fitted to the row.

        Args:
            coefficient: c of each row, shape (n,).

        Example:
            >>> fit = cross_fit([1, 0, 1, 1], [0, 0, 0, 0], [0] * 4, [0, 0, 1, 1],
            ...                 Policy([0], [0], [1.0]), prior_rows=0)
            >>> fit.influence(np.zeros(4)).tolist()
            [0.5, -0.5, 0.0, 0.0]
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
    reward: ArrayLike,
    action: ArrayLike,
    context: ArrayLike,
    fold: ArrayLike,
    policy: Policy,
    prior_rows: float = PRIOR_ROWS,
) -> CrossFit:
    """Mean reward per action, shrunk to the overall mean, fitted on the other folds.

    q(a) = (Σ r of a + k·mean) / (rows of a + k), k = `prior_rows`; the context is ignored. James
    and Stein (1961) for shrinkage; Chernozhukov et al. (2018) for cross-fitting.

    Args:
        reward: Shape (n,).
        action: Codes from 0, shape (n,).
        context: Codes from 0, such as the position, shape (n,).
        fold: Codes from 0 of at least two folds, no unit in two of them, shape (n,).
        policy: The evaluated policy.
        prior_rows: k, at least 0.

    Raises:
        Refusal: `too_few_units` without rows outside a fold; `inconsistent` when lengths differ
            or the policy does not sum to 1 in a context of the log; `not_finite`.

    Example:
        >>> fit = cross_fit([1, 0, 1, 1], [0, 1, 0, 1], [0] * 4, [0, 0, 1, 1],
        ...                 Policy([0, 0], [0, 1], [0.5, 0.5]), prior_rows=1)
        >>> fit.q.tolist()
        [[1.0, 1.0], [0.75, 0.25]]
        >>> fit.predicted.tolist(), fit.expected.tolist()
        ([1.0, 1.0, 0.75, 0.25], [1.0, 1.0, 0.5, 0.5])
    """
    r = finite_rewards(reward)
    named = {"action": action, "context": context, "fold": fold}
    a, c, f = (_codes(name, codes, r.size) for name, codes in named.items())
    policy = Policy(*map(np.asarray, policy))
    check_policy(policy, c)
    folds, actions = int(f.max()) + 1, int(max(a.max(), np.max(policy.action, initial=0))) + 1
    rows = np.bincount(f * actions + a, minlength=folds * actions).reshape(folds, actions)
    sums = np.bincount(f * actions + a, r, folds * actions).reshape(folds, actions)
    outside = rows.sum() - rows.sum(axis=1)
    if folds < 2 or not outside.all():
        raise Refusal("too_few_units", "cross-fitting needs rows in two folds")
    mean = (sums.sum() - sums.sum(axis=1)) / outside
    mass = rows.sum(axis=0) - rows + prior_rows
    numerator = sums.sum(axis=0) - sums + prior_rows * mean[:, None]
    # Without prior rows, an action that is absent outside the fold is predicted the overall mean.
    q = np.divide(numerator, mass, out=np.repeat(mean[:, None], actions, axis=1), where=mass > 0)
    expected, demand = _under_policy(policy, q, c, f)
    return CrossFit(q, q[f, a], expected, r, a, f, mean, mass, demand, prior_rows)


def check_policy(policy: Policy, context: Integers) -> None:
    """Check that a policy is a distribution over actions in every context of the log.

    Raises:
        Refusal: `inconsistent` if probabilities do not sum to 1 (to 1e-6);
            `invalid_propensity` if one is not in [0, 1].

    Example:
        >>> check_policy(Policy([0], [0], [0.5]), np.array([0]))
        Traceback (most recent call last):
        abeval.stats.records.Refusal: the policy sums to 0.5 in a context of the log, not to 1
    """
    probability = np.asarray(policy.probability, dtype=np.float64)
    if not ((probability >= 0) & (probability <= 1)).all():
        raise Refusal("invalid_propensity", "a probability of the policy is not in [0, 1]")
    contexts = int(context.max()) + 1
    totals = np.bincount(np.asarray(policy.context, dtype=np.int64), probability, contexts)
    used = totals[np.unique(context)]
    if not np.allclose(used, 1, rtol=0, atol=1e-6):
        worst = float(used[np.abs(used - 1).argmax()])
        message = f"the policy sums to {worst:.6g} in a context of the log, not to 1"
        raise Refusal("inconsistent", message)


def _under_policy(
    policy: Policy, q: Floats, context: Integers, fold: Integers
) -> tuple[Floats, Floats]:
    """`expected` and `demand` of a `CrossFit`."""
    in_context = np.asarray(policy.context, dtype=np.int64)
    action = np.asarray(policy.action, dtype=np.int64)
    p = np.asarray(policy.probability, dtype=np.float64)
    contexts = int(max(context.max(), np.max(in_context, initial=0))) + 1
    value = np.stack([np.bincount(in_context, p * q_fold[action], contexts) for q_fold in q])
    rows = [np.bincount(context[fold == f], minlength=contexts) for f in range(len(q))]
    demand = np.stack([np.bincount(action, p * n[in_context], q.shape[1]) for n in rows])
    return value[fold, context].astype(np.float64), demand.astype(np.float64)


def _codes(name: str, values: ArrayLike, length: int) -> Integers:
    codes = np.asarray(values)
    if codes.shape != (length,) or codes.dtype.kind not in "iu" or (length and codes.min() < 0):
        message = f"{name} codes must be whole numbers from 0, one per row"
        raise Refusal("inconsistent", f"{message}; got {codes.dtype} {codes.shape}")
    if length == 0:
        raise Refusal("too_few_units", "the log has no rows")
    return codes.astype(np.int64)
