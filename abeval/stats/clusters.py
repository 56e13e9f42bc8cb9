"""Estimate intra-cluster correlation, and the design effect of clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.records import Refusal


class ClusterCorrelation(NamedTuple):
    """Intra-cluster correlation, and the design effect that follows from it.

    Attributes:
        icc: Intra-cluster correlation, not below 0.
        effect: Design effect: number of units over the number of independent units with the same
            precision.
    """

    icc: float
    effect: float


def estimate_icc(
    sizes: ArrayLike, sums: ArrayLike, squares: ArrayLike, groups: int = 1
) -> ClusterCorrelation:
    """Estimate the intra-cluster correlation by ANOVA, and the design effect.

    ICC = (B − W) / (B + (n₀ − 1) W) of the mean squares between and within clusters (Donner 1986);
    effect = 1 + (Σm²/Σm − 1)·ICC over sizes m (Kish 1965; Eldridge, Ashby and Kerry 2006). Each
    argument has one number per cluster; `sums` and `squares` are of units' deviations from the mean
    of their group, of a ratio y − R·x. Refusals: `too_few_units` without two clusters in a group
    and two units in a cluster; `zero_variance`.

    Example:
        >>> estimate_icc([2, 2], [-2, 2], [2, 2])
        ClusterCorrelation(icc=1.0, effect=2.0)
    """
    m, s = np.asarray(sizes, dtype=np.float64), np.asarray(sums, dtype=np.float64)
    m, s = m[m > 0], s[m > 0]
    units, between_sum = float(m.sum()), float((s * s / m).sum())
    between_df, within_df = len(m) - groups, units - len(m)
    if between_df < 1 or within_df < 1:
        raise Refusal("too_few_units", "a correlation needs two clusters, and units within one")
    # Mean squares between and within clusters.
    between, within = between_sum / between_df, (float(np.sum(squares)) - between_sum) / within_df
    if between + within <= 0:
        raise Refusal("zero_variance", "the values do not vary")
    repeated = float((m * m).sum()) / units
    # n₀, the effective size of unequal clusters (Donner 1986).
    size = (units - groups * repeated) / between_df
    icc = max(0.0, (between - within) / (between + (size - 1) * within))
    # Design effect 1 + (Σm²/Σm − 1)·ICC (Kish 1965).
    return ClusterCorrelation(icc, 1 + (repeated - 1) * icc)
