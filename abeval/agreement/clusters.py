"""Estimate shares and AUC from rows of queries, with variances by cluster.

A row is of one unit, or of one of 64 groups of units; both are clusters that are independent.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr

from abeval.stats import effects, means
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Floats, Refusal


def estimate_cluster_ratio(above: Floats, below: Floats) -> Estimate | None:
    """Return Σ above / Σ below over clusters, by the delta method.

    None without a denominator.

    Example:
        >>> import numpy as np
        >>> e = estimate_cluster_ratio(np.array([1.0, 2.0, 3.0]), np.array([10.0, 10.0, 10.0]))
        >>> e.value, round(e.variance, 6)
        (0.2, 0.003333)
    """
    try:
        return means.estimate_ratio(Moments.of(above, below))
    except Refusal:
        return None


def estimate_from_influences(value: float, influence: Floats) -> Estimate:
    """Return an estimate from the influence of each cluster, which sums to zero."""
    n = influence.size
    # Influences are centred on the estimate itself, which takes one degree of freedom.
    return Estimate(value, float((influence**2).sum()) * n / (n - 1), n, n - 1.0)


def estimate_difference(first: Estimate, second: Estimate) -> Estimate:
    """Return `second - first` of independent clusters."""
    variance = first.variance + second.variance
    df = effects.satterthwaite([first.variance, second.variance], [first.df, second.df])
    return Estimate(second.value - first.value, variance, first.units + second.units, df)


def change_on_same(before: Estimate, after: Estimate) -> Estimate:
    """Return `after - before` of the same rows, with the sum of both errors."""
    # How far both go together is unknown, and full dependence is the safe side.
    error = before.variance**0.5 + after.variance**0.5
    return Estimate(after.value - before.value, error**2, before.units, before.df)


def compute_p_value(estimate: Estimate) -> float:
    """Return the two-sided p-value of zero.

    Example:
        >>> round(compute_p_value(Estimate(1.0, 0.25, 1000, 999.0)), 3)
        0.046
    """
    # Without variance there is no t: a number that never varies is certain.
    if estimate.variance <= 0:
        return 0.0 if estimate.value else 1.0
    return float(2 * stdtr(estimate.df, -abs(estimate.value) / estimate.variance**0.5))


def compute_p_above(estimate: Estimate, limit: float) -> float:
    """Return the one-sided p-value of a number that is not above a limit.

    Example:
        >>> round(compute_p_above(Estimate(3.0, 1.0, 1000, 999.0), 1.0), 3)
        0.023
    """
    if estimate.variance <= 0:
        return 0.0 if estimate.value > limit else 1.0
    return float(stdtr(estimate.df, (limit - estimate.value) / estimate.variance**0.5))


class Shares(NamedTuple):
    """Shares in control and in the variant, and their difference."""

    control: Estimate
    variant: Estimate
    more: Estimate


def share(rows: pd.DataFrame, side: str, column: str, among: str) -> Estimate | None:
    """Return Σ of a column over Σ of another, of one side; None without any."""
    # Rows of a cluster depend on each other, so they are added before the variance.
    totals = rows[rows["side"] == side].groupby("cluster")[[column, among]].sum()
    above, below = (totals[name].to_numpy(dtype=np.float64) for name in (column, among))
    return estimate_cluster_ratio(above, below)


def compare_shares(rows: pd.DataFrame, column: str, among: str) -> Shares | None:
    """Return the shares of control and variant; None if one side has none."""
    control, variant = (share(rows, side, column, among) for side in ("control", "variant"))
    if control is None or variant is None:
        return None
    return Shares(control, variant, estimate_difference(control, variant))


class ModelPair(NamedTuple):
    """A metric of both models on one traffic, and candidate minus baseline, paired."""

    baseline: Estimate
    candidate: Estimate
    difference: Estimate


def estimate_strata(pairs: pd.DataFrame, variant: str, part: str = "all") -> ModelPair | None:
    """Return AUC within strata of both models, weighted by pairs, of one part.

    `pairs` are the rows of `queries/agreement/pairs`: halves of won pairs, and pairs, by cluster.
    """
    part_rows = pairs[(pairs["variant"] == variant) & (pairs["part"] == part)]
    count = part_rows["pairs"].to_numpy(dtype=np.float64)
    total = count.sum()
    if count.size < 2 or not total:
        return None
    values, influences = list[float](), list[Floats]()
    for model in ("baseline", "candidate"):
        won = part_rows[f"{model}_halves"].to_numpy(dtype=np.float64) / 2
        values.append(float(won.sum() / total))
        # Each pair is counted at both of its rows: the influence of a cluster is twice its share
        # (Hoeffding 1948).
        influences.append(2 * (won - values[-1] * count) / total)
    return ModelPair(
        estimate_from_influences(values[0], influences[0]),
        estimate_from_influences(values[1], influences[1]),
        # Both models order the same pairs, so the difference has its own influences.
        estimate_from_influences(values[1] - values[0], influences[1] - influences[0]),
    )
