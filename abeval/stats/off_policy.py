"""The value a policy would have had, from the log of another: weighting alone.

A row of the log is a reward, the probability with which the log's policy took the logged action
in its context, and the probability with which the evaluated policy would have; w is their ratio.
The value is a mean reward per row. Estimators with a model of the reward are in
`abeval.stats.off_policy_model_based`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import proportions
from abeval.stats.off_policy_interval import PolicyValue, by_cluster, estimate, from_influence
from abeval.stats.off_policy_weights import (
    MIN_ESS,
    columns,
    effective_size,
    importance_weights,
    require_effective_size,
)
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]


def ips(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    min_ess: float = MIN_ESS,
) -> PolicyValue:
    """Inverse propensity score: mean of w·r, unbiased where the log's policy has full support.

    Args:
        reward: Such as click 0 or 1, shape (n,).
        logging: Probability of the logged action under the log's policy, in (0, 1], shape (n,).
        evaluation: Probability of it under the evaluated policy, in [0, 1], shape (n,).
        clusters: Whole-number ids of units whose rows are not independent, shape (n,).
        alpha: Error rate of the interval.
        min_ess: Effective sample size, of rows and of clusters, below which it is refused.

    Returns:
        Value, standard error and interval; without interval where nothing varies or fewer than
        five effective rows are rewarded.

    Raises:
        Refusal: `unsupported_by_logging`; `invalid_propensity`; `inconsistent` when lengths
            differ; `not_finite` for a reward; `too_few_units`.

    Source:
        Horvitz and Thompson (1952); Strehl, Langford, Li and Kakade (2010).

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> found = ips(clicks, uniform, np.tile([0.75, 0.25], 100))
        >>> found.value, round(found.low, 4), round(found.high, 4)
        (0.375, 0.2893, 0.4719)
    """
    r, w = _rows(reward, logging, evaluation, clusters, min_ess)
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
    """Clipped IPS: mean of min(w, cap)·r. Less variance, biased downward for positive rewards.

    Its interval is about its own expectation, which is below the policy's value. Support is
    asked of the weights before they are clipped.

    Args:
        reward: Shape (n,).
        logging: Shape (n,).
        evaluation: Shape (n,).
        cap: The largest weight allowed, above 0.
        clusters: As for `ips`.
        alpha: As for `ips`.
        min_ess: As for `ips`.

    Raises:
        Refusal: As `ips`.
        ValueError: The cap is not positive.

    Source:
        Ionides (2008); Strehl, Langford, Li and Kakade (2010).

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> clipped_ips(clicks, uniform, np.tile([0.75, 0.25], 100), cap=1).value
        0.25
    """
    r, w = _rows(reward, logging, evaluation, clusters, min_ess)
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
    """Self-normalised IPS: Σ w·r / Σ w, within the range of the rewards whatever the weights.

    The denominator is random, and the standard error says so (delta method of a ratio). The
    scale of the weights does not matter. Arguments, refusals as in `ips`.

    Source:
        Hajek (1971); Swaminathan and Joachims (2015).

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> found = snips(clicks, uniform, np.tile([0.75, 0.25], 100))
        >>> found.value, round(found.se, 4)
        (0.375, 0.0399)
    """
    r, w = _rows(reward, logging, evaluation, clusters, min_ess)
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
    """Replay averaged over every draw of the evaluated policy: Σ πr / Σ π.

    What `replay` gives for a random policy depends on the actions drawn; this is its limit over
    all draws, and equals SNIPS, as logging must be uniform.

    Args:
        reward: As for `ips`.
        logging: As for `ips`; one value for all rows.
        evaluation: As for `ips`.
        clusters: As for `ips`.
        alpha: As for `ips`.
        min_ess: As for `ips`, of the evaluation probabilities.
        any_logging: Give the number though logging is not uniform, and the number is wrong.

    Raises:
        Refusal: As `ips`; `unsupported_by_logging` where logging is not uniform.

    Source:
        Li, Chu, Langford and Wang (2011), Rao-Blackwellised over the policy's own draws.

    Example:
        >>> clicks, uniform = np.tile([1, 0, 0, 0], 50), np.full(200, 0.5)
        >>> expected_replay(clicks, uniform, np.tile([0.75, 0.25], 100)).value
        0.375
    """
    if not any_logging:
        _check_uniform(logging)
    importance_weights(logging, evaluation)
    kept = np.ones(np.size(logging))
    r, p = _rows(reward, kept, evaluation, clusters, min_ess)
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
    """Replay: mean reward of the rows whose logged action the evaluated policy chose too.

    Args:
        reward: Shape (n,).
        logging: Probability of the logged action, one value for all rows, shape (n,).
        matched: Whether the evaluated policy chose the logged action, shape (n,).
        clusters: As for `ips`.
        alpha: Error rate of the interval: Wilson's of the matched rows where rewards are 0 or 1
            and rows independent, else of a ratio with its random number of matches.
        min_ess: Matched rows (and clusters) below which it is refused.
        any_logging: Give the number though logging is not uniform, and the number is wrong.

    Raises:
        Refusal: As `ips`; `unsupported_by_logging` where logging is not uniform.

    Source:
        Li, Chu, Langford and Wang (2011); Wilson (1927).

    Example:
        >>> clicks = np.tile([1, 0, 0, 0], 100)
        >>> found = replay(clicks, np.full(400, 0.5), np.tile([1, 1, 0, 0], 100))
        >>> found.value, round(found.low, 4), found.method
        (0.5, 0.4314, 'wilson')
    """
    if not any_logging:
        _check_uniform(logging)
    ones = np.ones(np.size(logging))
    r, m = _rows(reward, ones, np.asarray(matched, dtype=np.float64), clusters, min_ess)
    if clusters is not None or not np.isin(r, (0, 1)).all() or not np.isin(m, (0, 1)).all():
        return _ratio(r, m, clusters, alpha)
    count = proportions.Count(int(m @ r), int(m.sum()))
    value = count.successes / count.units
    se = estimate(value, m * (r - value) / m.mean()).se
    return PolicyValue(value, se, *proportions.interval(count, alpha), "wilson")


def positive(name: str, value: float) -> float:
    """An option that must be above 0.

    Raises:
        ValueError: It is not.

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
    r = np.asarray(reward, dtype=np.float64)
    if not np.isfinite(r).all():
        raise Refusal("not_finite", "an infinite or missing reward; drop its row or fill it first")
    return r


def _rows(
    reward: ArrayLike,
    logging: ArrayLike,
    evaluation: ArrayLike,
    clusters: ArrayLike | None,
    min_ess: float,
) -> tuple[Floats, Floats]:
    """Rewards and weights, checked."""
    weights = importance_weights(logging, evaluation)
    r, w = columns(finite_rewards(reward), weights)
    by_cluster(w, clusters)
    require_effective_size(w, clusters, min_ess)
    return r, w


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
        found = f"here they run from {p.min():.3g} to {p.max():.3g}: use SNIPS"
        raise Refusal("unsupported_by_logging", f"{message}; {found}")
