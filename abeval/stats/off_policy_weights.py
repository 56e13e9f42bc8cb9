"""Importance weights of a logged policy, and whether its log can speak for another policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects
from abeval.stats.off_policy_interval import by_cluster, estimate
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]

MIN_ESS = 100.0
"""Below this effective sample size nothing is estimated. Simulated 95 % intervals covered 83 % at
27 and 88 to 93 % at 90, against 91 % and more from 245 (docs/off-policy.md)."""

MAX_UNSUPPORTED = 0.05
"""Above this share of evaluation probability on actions the log never took nothing is estimated:
the weighted estimators miss all that these actions earn, a model of them is a guess."""

MEAN_WEIGHT_ALPHA, MEAN_WEIGHT_SLACK = 1e-4, 0.05
"""Weights whose mean is off 1 at this level and by more than this much have wrong propensities.
The level is strict, because the mean of skewed weights is below 1 more often than a t-test says;
the slack is there, because with many rows the rounding of propensities is significant too."""


class MeanWeight(NamedTuple):
    """The test that importance weights average 1.

    Attributes:
        value: Mean weight.
        se: Its standard error, clustered where clusters are given.
        p_value: Two-sided, of a mean of 1.
    """

    value: float
    se: float
    p_value: float


class Diagnostics(NamedTuple):
    """What a log has to say about another policy.

    Attributes:
        rows: Rows of the log.
        units: Clusters, or rows where there are none.
        rewarded: Rows with a reward other than 0.
        mean_weight: Should be 1.
        max_weight: The largest weight.
        weight_p99: The 99th percentile of the weights.
        ess: Effective sample size (Σw)²/Σw² of the rows.
        ess_share: `ess / rows`.
        ess_units: The same of the weights summed per cluster.
        accepted: Rows that rejection sampling at w / max w would keep on average.
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
    """Weights w = evaluation / logging of the logged actions.

    Args:
        logging: Probability with which the log's policy took the logged action, shape (n,).
        evaluation: Probability with which the evaluated policy would have, shape (n,).

    Returns:
        Shape (n,).

    Raises:
        Refusal: `too_few_units` without rows; `inconsistent` when lengths differ;
            `invalid_propensity` where a logging probability is not in (0, 1] or an evaluation
            probability not in [0, 1], NaN included.

    Source:
        Horvitz and Thompson (1952).

    Example:
        >>> importance_weights([0.5, 0.25], [0.25, 1.0]).tolist()
        [0.5, 4.0]
    """
    below, above = columns(logging, evaluation)
    _check_probability("logging", below, (below > 0) & (below <= 1), "(0, 1]")
    _check_probability("evaluation", above, (above >= 0) & (above <= 1), "[0, 1]")
    with np.errstate(over="ignore"):
        weights = above / below
    if not np.isfinite(weights).all():
        raise Refusal("invalid_propensity", "a logging probability is too small to divide by")
    return weights


def columns(*arrays: ArrayLike) -> tuple[Floats, ...]:
    """Arrays as doubles of one length.

    Raises:
        Refusal: `inconsistent` when they are not one-dimensional and of one length;
            `too_few_units` when they are empty.

    Example:
        >>> [column.tolist() for column in columns([1, 0], [0.5, 0.5])]
        [[1.0, 0.0], [0.5, 0.5]]
    """
    found = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    if any(column.ndim != 1 for column in found) or len({column.size for column in found}) > 1:
        shapes = ", ".join(str(column.shape) for column in found)
        raise Refusal("inconsistent", f"columns must be one-dimensional and as long: {shapes}")
    if found[0].size == 0:
        raise Refusal("too_few_units", "the log has no rows")
    return found


def effective_size(weights: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Effective sample size (Σw)²/Σw²; of sums per cluster where clusters are given.

    Equal weights count fully, one weight that outweighs all others counts as one row. The scale
    of the weights does not matter; 0 where all weights are 0.

    Args:
        weights: At least 0, shape (n,).
        clusters: Whole-number ids, shape (n,).

    Source:
        Kong (1992).

    Example:
        >>> effective_size([1, 1, 1, 1]), effective_size([1, 0, 0, 0])
        (4.0, 1.0)
        >>> effective_size([1, 1, 1, 1], clusters=[7, 7, 9, 9])
        2.0
    """
    (found,) = columns(weights)
    sums = by_cluster(found, clusters)
    # Shares of the largest, because squares of small weights vanish.
    shares = sums / sums.max() if sums.max() > 0 else sums
    below = float(shares @ shares)
    return float(shares.sum() ** 2 / below) if below > 0 else 0.0


def require_effective_size(
    weights: ArrayLike, clusters: ArrayLike | None = None, minimum: float = MIN_ESS
) -> None:
    """Refuse weights that rest on too few rows, or on too few clusters.

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
    # A policy on its own log has all its rows, up to rounding.
    if size <= 0 or size < minimum * (1 - 1e-9):
        message = f"the effective sample size is {size:.3g} of {np.size(weights)} rows"
        raise Refusal("unsupported_by_logging", f"{message}, below {minimum:g}")


def mean_weight_test(weights: ArrayLike, clusters: ArrayLike | None = None) -> MeanWeight:
    """Whether weights average 1, as they do when propensities and support are right.

    Args:
        weights: Shape (n,).
        clusters: Whole-number ids, shape (n,).

    Returns:
        Mean, its (clustered) standard error, and the p-value of 1, against t with clusters − 1
        degrees of freedom; without any variance the p-value is 1 at 1 and 0 elsewhere.

    Raises:
        Refusal: `too_few_units` below two clusters.

    Source:
        Saito et al. (2020), of the mean weight; Li et al. (2015) use it the same way.

    Example:
        >>> mean_weight_test([0.5, 1.5, 0.5, 1.5])
        MeanWeight(value=1.0, se=0.28867513459481287, p_value=1.0)
    """
    (found,) = columns(weights)
    mean = float(found.mean())
    spread = estimate(mean, found - mean, clusters)
    if spread.se <= 1e-9:
        return MeanWeight(mean, 0.0, float(abs(mean - 1) <= 1e-9))
    df = spread.units - 1
    effect = effects.from_difference(1.0, mean, mean - 1, spread.se, df)
    return MeanWeight(mean, spread.se, effect.p_value)


def unsupported_share(probability: ArrayLike, taken: ArrayLike, context_share: ArrayLike) -> float:
    """Share of evaluation probability on actions that the log never took in their context.

    Args:
        probability: Evaluation probability of each context and action, shape (m,).
        taken: How often the log took the action in the context, shape (m,).
        context_share: Share of the log's rows in that context, shape (m,).

    Returns:
        In [0, 1]; for weighted estimators also the share of the mean weight that is missing.

    Source:
        Sachdeva, Su and Joachims (2020), "Off-policy bandits with deficient support".

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
    """All diagnostics of a log for an evaluation policy.

    Args:
        reward: Shape (n,).
        weights: Of `importance_weights`, shape (n,).
        clusters: Whole-number ids, shape (n,).
        unsupported: Of `unsupported_share`, None if the policy is known only where logged.

    Raises:
        Refusal: As `columns` and `mean_weight_test`.

    Example:
        >>> found = diagnose([1, 0, 0, 1], [0.5, 1.5, 0.5, 1.5])
        >>> found.rewarded, round(found.ess, 6), found.max_weight
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


def check_support(found: Diagnostics, min_ess: float = MIN_ESS) -> None:
    """Refuse a log that cannot support any estimate of the evaluation policy.

    Raises:
        Refusal: `unsupported_by_logging` when more than `MAX_UNSUPPORTED` of the evaluation
            probability lies on actions never taken, or the effective sample size of rows or
            clusters is below `min_ess`; `weights_not_one` when the mean weight is off 1 by more
            than `MEAN_WEIGHT_SLACK` at level `MEAN_WEIGHT_ALPHA`.

    Example:
        >>> check_support(diagnose([1, 0], [1.0, 1.0]), min_ess=2)
        >>> check_support(diagnose([1, 0], [1.0, 1.0], unsupported=0.5), min_ess=2)
        Traceback (most recent call last):
        abeval.stats.records.Refusal: 50.0 % of the policy is on actions never taken
    """
    if found.unsupported is not None and found.unsupported > MAX_UNSUPPORTED:
        share = f"{100 * found.unsupported:.1f} %"
        raise Refusal("unsupported_by_logging", f"{share} of the policy is on actions never taken")
    of_rows = (found.ess, found.rows, "rows")
    of_units = (found.ess_units, found.units, "units")
    size, count, what = min(of_rows, of_units)
    if size <= 0 or size < min_ess * (1 - 1e-9):
        message = f"the effective sample size is {size:.3g} of {count} {what}"
        raise Refusal("unsupported_by_logging", f"{message}, below {min_ess:g}")
    mean, se, p_value = found.mean_weight
    if p_value < MEAN_WEIGHT_ALPHA and abs(mean - 1) > MEAN_WEIGHT_SLACK:
        message = f"the weights average {mean:.3f} ± {se:.3f}, not 1: wrong propensities"
        raise Refusal("weights_not_one", message)


def _check_probability(name: str, values: Floats, valid: NDArray[np.bool_], where: str) -> None:
    wrong = int(np.count_nonzero(~valid))
    if wrong:
        first = float(values[~valid][0])
        message = f"{wrong} of {values.size} {name} probabilities are not in {where}, such as"
        raise Refusal("invalid_propensity", f"{message} {first:g}")
