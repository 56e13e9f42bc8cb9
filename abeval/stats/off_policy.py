"""Value of a policy from the log of another policy, by importance weighting.

A row of the log has a reward and two probabilities of the logged action in its context: under the
logging policy and under the evaluated policy. The weight w is evaluated over logging. The value is
a mean reward per row. Estimators with a model of the reward are in
`abeval.stats.off_policy`.

`off_policy/estimates.py` hands over the arrays of a `PolicyLog`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import proportions
from abeval.stats.off_policy_support import (
    MIN_ESS,
    by_cluster,
    columns,
    effective_size,
    importance_weights,
    require_effective_size,
)
from abeval.stats.records import Floats, Refusal, finite


def ips(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """Inverse propensity score: mean of w·r, unbiased if the logging policy has full support.

    Horvitz and Thompson (1952); Strehl, Langford, Li and Kakade (2010).

    Args:
        reward: Reward of each row, such as a click (0 or 1), shape (n,).
        logging: Probability of the logged action under the logging policy, in (0, 1], shape (n,).
        evaluation: Its probability under the evaluated policy, in [0, 1], shape (n,).
        clusters: Integer ids of units whose rows are not independent, shape (n,).
        alpha: Error rate of the interval.
        min_ess: Least effective sample size of rows and of clusters.

    Returns:
        Value, standard error and interval; no interval if nothing varies or fewer than five
        effective rows are rewarded.

    Raises:
        Refusal: `unsupported_by_logging`; `invalid_propensity`; `inconsistent` when lengths
            differ; `not_finite` for a reward; `too_few_units`.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> estimated = ips(clicks, uniform, np.tile([0.75, 0.25], 100))
        >>> estimated.value, round(estimated.low, 4), round(estimated.high, 4)
        (0.375, 0.2893, 0.4719)
    """
    r, w = weighted_rows(reward, logging, evaluation, clusters, min_ess)
    return _mean(r, w, clusters, alpha)


def clipped_ips(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    cap: float,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """Clipped IPS: mean of min(w, cap)·r. Less variance; biased downward for positive rewards.

    The interval covers the estimator's expectation, which is below the policy's value (Ionides
    2008; Strehl, Langford, Li and Kakade 2010). The effective sample size is that of the weights
    before clipping. Arguments and refusals as in `ips`.

    Raises:
        ValueError: For a cap that is not positive.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> clipped_ips(clicks, uniform, np.tile([0.75, 0.25], 100), cap=1).value
        0.25
    """
    r, w = weighted_rows(reward, logging, evaluation, clusters, min_ess)
    return _mean(r, np.minimum(w, positive("cap", cap)), clusters, alpha)


def snips(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """Self-normalised IPS: Σ w·r / Σ w, always within the range of the rewards.

    The standard error includes the random denominator, by the delta method of a ratio. The scale of
    the weights does not matter (Hajek 1971; Swaminathan and Joachims 2015). Arguments and refusals
    as in `ips`.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> estimated = snips(clicks, uniform, np.tile([0.75, 0.25], 100))
        >>> estimated.value, round(estimated.se, 4)
        (0.375, 0.0399)
    """
    r, w = weighted_rows(reward, logging, evaluation, clusters, min_ess)
    return _ratio(r, w, clusters, alpha)


def expected_replay(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
    any_logging: bool = False,
) -> PolicyValue:
    """Replay averaged over all draws of the evaluated policy: Σ πr / Σ π.

    For a random policy `replay` depends on the drawn actions; this is its limit over many draws.
    It equals SNIPS, because logging must be uniform (Li, Chu, Langford and Wang 2011,
    Rao-Blackwellised over the policy's draws). Arguments and refusals as in `ips`; `min_ess` is
    that of the evaluation probabilities. With `any_logging` a value is returned even if logging is
    not uniform; that value is wrong.

    Raises:
        Refusal: `unsupported_by_logging` also if logging is not uniform.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> expected_replay(clicks, uniform, np.tile([0.75, 0.25], 100)).value
        0.375
    """
    if not any_logging:
        _check_uniform(logging)
    importance_weights(logging, evaluation)
    ones = np.ones(np.size(logging))
    r, p = weighted_rows(reward, ones, evaluation, clusters, min_ess)
    return _ratio(r, p, clusters, alpha)


def replay(
    reward: ArrayLike,
    logging: ArrayLike,
    matched: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
    any_logging: bool = False,
) -> PolicyValue:
    """Replay: mean reward of the rows in which the evaluated policy chose the logged action.

    Li, Chu, Langford and Wang (2011).

    Args:
        reward: Shape (n,).
        logging: Probability of the logged action, the same in all rows, shape (n,).
        matched: Whether the evaluated policy chose the logged action, shape (n,).
        clusters: As for `ips`.
        alpha: Error rate of the interval: Wilson's (1927) over the matched rows if rewards are 0
            or 1 and rows independent, else that of a ratio with a random number of matches.
        min_ess: Least number of matched rows (and clusters).
        any_logging: As for `expected_replay`.

    Raises:
        Refusal: As `expected_replay`.

    Example:
        >>> clicks = np.tile([1, 0, 0, 0], 100)
        >>> estimated = replay(clicks, np.full(400, 0.5), np.tile([1, 1, 0, 0], 100))
        >>> estimated.value, round(estimated.low, 4), estimated.method
        (0.5, 0.4314, 'wilson')
    """
    if not any_logging:
        _check_uniform(logging)
    ones = np.ones(np.size(logging))
    r, m = weighted_rows(reward, ones, np.asarray(matched, dtype=np.float64), clusters, min_ess)
    if clusters is not None or not np.isin(r, (0, 1)).all() or not np.isin(m, (0, 1)).all():
        return _ratio(r, m, clusters, alpha)
    count = proportions.Count(int(m @ r), int(m.sum()))
    value = count.successes / count.units
    se = estimate(value, m * (r - value) / m.mean()).se
    return PolicyValue(value, se, *proportions.interval(count, alpha), "wilson")


def positive(name: str, value: float) -> float:
    """The value of an option that must be above 0.

    Raises:
        ValueError: For a value that is not.

    Example:
        >>> positive("cap", 10.0)
        10.0
    """
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    return value


def effective_rewards(coefficient: Floats, reward: Floats) -> float:
    """Effective number of rewarded rows: (Σ|c·r|)²/Σ(c·r)².

    Example:
        >>> effective_rewards(np.array([1.0, 1.0, 9.0]), np.array([1.0, 1.0, 0.0]))
        2.0
    """
    return effective_size(np.abs(coefficient * reward))


def finite_rewards(reward: ArrayLike) -> Floats:
    """Rewards as doubles.

    Raises:
        Refusal: `not_finite`.

    Example:
        >>> finite_rewards([1, 0]).tolist()
        [1.0, 0.0]
    """
    return finite(reward, "an infinite or missing reward; drop its row or fill it first")


def weighted_rows(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    clusters: ArrayLike | None,
    min_ess: float,
    *predictions: ArrayLike,
) -> tuple[Floats, ...]:
    """Rewards, weights and predictions of the rows, checked.

    Raises:
        Refusal: As `ips`; `not_finite` also for a prediction.

    Example:
        >>> [column.tolist() for column in weighted_rows([1, 0], [0.5, 0.5], [0.5, 0.5], None, 2)]
        [[1.0, 0.0], [1.0, 1.0]]
    """
    weights = importance_weights(logging, evaluation)
    rows = columns(finite_rewards(reward), weights, *predictions)
    for prediction in rows[2:]:
        finite(prediction, "an infinite or missing prediction")
    by_cluster(weights, clusters)
    require_effective_size(weights, clusters, min_ess)
    return rows


def _mean(r: Floats, w: Floats, clusters: ArrayLike | None, alpha: float) -> PolicyValue:
    value = float((w * r).mean())
    return from_influence(value, w * r - value, clusters, alpha, effective_rewards(w, r))


def _ratio(r: Floats, w: Floats, clusters: ArrayLike | None, alpha: float) -> PolicyValue:
    value = float((w @ r) / w.sum())
    influence = w * (r - value) / w.mean()
    return from_influence(value, influence, clusters, alpha, effective_rewards(w, r))


def _check_uniform(logging: ArrayLike) -> None:
    p = np.asarray(logging, dtype=np.float64)
    if p.size and not np.ptp(p) <= 1e-9 * p.max():
        message = "replay is right only where every action was logged with one probability"
        range_ = f"here it ranges from {p.min():.3g} to {p.max():.3g}: use SNIPS"
        raise Refusal("unsupported_by_logging", f"{message}; {range_}")
