"""Importance weights of a log, and checks that it can support an estimate for another policy.

`off_policy/estimates.py` checks a log before it estimates; the estimators of `stats/off_policy.py`
take their weights from here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.off_policy import estimate
from abeval.stats.off_policy_support import by_cluster
from abeval.stats.records import Bools, Floats, Refusal

MIN_ESS = 100.0
"""Least effective sample size for an estimate. Simulated 95 % intervals covered 83 % at 27, 88 to
93 % at 90, and 91 % or more from 245 (docs/off-policy.md)."""

MAX_UNSUPPORTED = 0.05
"""Largest share of evaluation probability on actions that the log never took. Weighted estimators
miss the rewards of these actions, and a model can only guess them."""

MEAN_WEIGHT_ALPHA, MEAN_WEIGHT_SLACK = 1e-4, 0.05
"""Propensities are wrong if the mean weight differs from 1 at this level and by more than this.
The level is strict, because the mean of skewed weights is below 1 more often than a t-test
assumes; the slack is for rounded propensities, which are significant with many rows."""


class MeanWeight(NamedTuple):
    """The test that importance weights average 1.

    Attributes:
        value: Mean weight.
        se: Its standard error, clustered if there are clusters.
        p_value: Two-sided p-value of a mean of 1.
    """

    value: float
    se: float
    p_value: float


class Diagnostics(NamedTuple):
    """How well a log supports the evaluation of another policy.

    Attributes:
        rows: Rows of the log.
        units: Clusters, or rows without clusters.
        rewarded: Rows with a reward other than 0.
        mean_weight: Mean weight, which should be 1, and its test.
        max_weight: Largest weight.
        weight_p99: 99th percentile of the weights.
        ess: Effective sample size (Σw)²/Σw² of the rows.
        ess_share: `ess / rows`.
        ess_units: Effective sample size of the weights summed per cluster.
        accepted: Expected number of rows that rejection sampling at w / max w keeps.
        unsupported: Share of evaluation probability on actions never taken; None if unknown.
    """

    rows: int
    units: int
    rewarded: int
    mean_weight: MeanWeight
    max_weight: float
    weight_p99: float
    ess: float
    ess_share: float
    ess_units: float
    accepted: float
    unsupported: float | None


def importance_weights(logging: ArrayLike, evaluation: ArrayLike) -> Floats:
    """Weights evaluation / logging of the logged actions, shape (n,) (Horvitz and Thompson 1952).

    Args:
        logging: Probability of the logged action under the logging policy, shape (n,).
        evaluation: Its probability under the evaluated policy, shape (n,).

    Raises:
        Refusal: `too_few_units` without rows; `inconsistent` when lengths differ;
            `invalid_propensity` for a logging probability outside (0, 1] or an evaluation
            probability outside [0, 1], NaN included.

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


def columns(*arrays: ArrayLike) -> tuple[Floats, ...]:
    """Columns of doubles of equal length.

    Raises:
        Refusal: `inconsistent` unless all are one-dimensional and of equal length;
            `too_few_units` if they are empty.

    Example:
        >>> [column.tolist() for column in columns([1, 0], [0.5, 0.5])]
        [[1.0, 0.0], [0.5, 0.5]]
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


def effective_size(weights: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Effective sample size (Σw)²/Σw² (Kong 1992), of sums per cluster if there are clusters.

    It is n for equal weights and about 1 if one weight dominates. The scale of the weights does
    not matter; 0 if all weights are 0.

    Args:
        weights: At least 0, shape (n,).
        clusters: Integer ids, shape (n,).

    Example:
        >>> effective_size([1, 1, 1, 1]), effective_size([1, 0, 0, 0])
        (4.0, 1.0)
        >>> effective_size([1, 1, 1, 1], clusters=[7, 7, 9, 9])
        2.0
    """
    (w,) = columns(weights)
    sums = by_cluster(w, clusters)
    # Divided by the largest, because squares of small weights underflow.
    scaled = sums / sums.max() if sums.max() > 0 else sums
    squares = float(scaled @ scaled)
    return float(scaled.sum() ** 2 / squares) if squares > 0 else 0.0


def require_effective_size(
    weights: ArrayLike, clusters: ArrayLike | None = None, minimum: float = MIN_ESS
) -> None:
    """Check that the effective sample size of rows and of clusters is large enough.

    Raises:
        Refusal: `unsupported_by_logging`.

    Example:
        >>> require_effective_size([1.0, 0.1], minimum=2)
        Traceback (most recent call last):
        abeval.stats.records.Refusal: the effective sample size is 1.2 of 2 rows, below 2
    """
    size = effective_size(weights)
    if clusters is not None:
        size = min(size, effective_size(weights, clusters))
    _require(size, f"{np.size(weights)} rows", minimum)


def _require(size: float, total: str, minimum: float) -> None:
    # A policy on its own log has the size of its rows, up to rounding.
    if size <= 0 or size < minimum * (1 - 1e-9):
        message = f"the effective sample size is {size:.3g} of {total}, below {minimum:g}"
        raise Refusal("unsupported_by_logging", message)


def mean_weight_test(weights: ArrayLike, clusters: ArrayLike | None = None) -> MeanWeight:
    """Test that weights average 1, as they do if propensities and support are right.

    Saito et al. (2020), of the mean weight; Li et al. (2015) use it in the same way.

    Args:
        weights: Importance weights, shape (n,).
        clusters: Integer ids, shape (n,).

    Returns:
        Mean, its (clustered) standard error, and the p-value of a mean of 1 against t with
        clusters − 1 degrees of freedom. Without variance the p-value is 1 for a mean of 1, else 0.

    Raises:
        Refusal: `too_few_units` below two clusters.

    Example:
        >>> mean_weight_test([0.5, 1.5, 0.5, 1.5])
        MeanWeight(value=1.0, se=0.28867513459481287, p_value=1.0)
    """
    (w,) = columns(weights)
    mean = float(w.mean())
    spread = estimate(mean, w - mean, clusters)
    if spread.se <= 1e-9:
        return MeanWeight(mean, 0.0, float(abs(mean - 1) <= 1e-9))
    df = spread.units - 1
    effect = effects.from_difference(1.0, mean, mean - 1, spread.se, df)
    return MeanWeight(mean, spread.se, effect.p_value)


def unsupported_share(probability: ArrayLike, taken: ArrayLike, context_share: ArrayLike) -> float:
    """Share of evaluation probability on actions that the log never took in their context.

    Also the share by which the mean weight is too small (Sachdeva, Su and Joachims 2020).

    Args:
        probability: Evaluation probability of each context and action, shape (m,).
        taken: Rows of the log with the action in the context, shape (m,).
        context_share: Share of the log's rows in that context, shape (m,).

    Example:
        >>> unsupported_share([0.75, 0.25], [10, 0], [1.0, 1.0])
        0.25
    """
    p, count, share = columns(probability, taken, context_share)
    return float((p * share * (count == 0)).sum())


def diagnose(
    reward: ArrayLike,
    weights: ArrayLike,
    clusters: ArrayLike | None = None,
    unsupported: float | None = None,
) -> Diagnostics:
    """All diagnostics of a log for an evaluated policy.

    Args:
        reward: Reward of each row, shape (n,).
        weights: From `importance_weights`, shape (n,).
        clusters: Integer ids, shape (n,).
        unsupported: From `unsupported_share`; None if the policy is known for logged actions only.

    Raises:
        Refusal: As `columns` and `mean_weight_test`.

    Example:
        >>> diagnostics = diagnose([1, 0, 0, 1], [0.5, 1.5, 0.5, 1.5])
        >>> diagnostics.rewarded, round(diagnostics.ess, 6), diagnostics.max_weight
        (2, 3.2, 1.5)
    """
    r, w = columns(reward, weights)
    size, largest = effective_size(w), float(w.max())
    return Diagnostics(
        rows=r.size,
        units=by_cluster(w, clusters).size,
        rewarded=int(np.count_nonzero(r)),
        mean_weight=mean_weight_test(w, clusters),
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

    Raises:
        Refusal: `unsupported_by_logging` if more than `MAX_UNSUPPORTED` of the evaluation
            probability lies on actions never taken, or if the effective sample size of rows or
            clusters is below `min_ess`; `weights_not_one` if the mean weight differs from 1 by
            more than `MEAN_WEIGHT_SLACK` at level `MEAN_WEIGHT_ALPHA`.

    Example:
        >>> check_support(diagnose([1, 0], [1.0, 1.0]), min_ess=2)
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
    _require(size, f"{count} {noun}", min_ess)
    mean, se, p_value = diagnostics.mean_weight
    if p_value < MEAN_WEIGHT_ALPHA and abs(mean - 1) > MEAN_WEIGHT_SLACK:
        message = f"the weights average {mean:.3f} ± {se:.3f}, not 1: wrong propensities"
        raise Refusal("weights_not_one", message)


def _check_probability(name: str, values: Floats, valid: Bools, where: str) -> None:
    wrong = int(np.count_nonzero(~valid))
    if wrong:
        first = float(values[~valid][0])
        message = f"{wrong} of {values.size} {name} probabilities are not in {where}, such as"
        raise Refusal("invalid_propensity", f"{message} {first:g}")
