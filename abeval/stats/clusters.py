"""What clusters cost: how alike their units are, and how much more of them a test then needs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats.records import Refusal


class Alike(NamedTuple):
    """How alike units of one cluster are, and by how much their number overstates what they say.

    Attributes:
        icc: Intra-cluster correlation, not below 0.
        effect: Design effect: units over the independent ones that would say as much.
    """

    icc: float
    effect: float


def alike(
    sizes: ArrayLike, sums: ArrayLike, squares: ArrayLike, variant: ArrayLike | None = None
) -> Alike:
    """Estimate the correlation within clusters by analysis of variance, and the design effect.

    ICC = (B − W) / (B + (n₀ − 1) W) of the mean squares between and within clusters (Donner 1986);
    effect = 1 + (Σm²/Σm − 1)·ICC over sizes m (Kish 1965; Eldridge, Ashby and Kerry 2006). Each
    argument has one number per cluster; `sums` and `squares` are of units' values, of a ratio its
    residuals y − R·x, each variant about a mean of its own. Refusals: `too_few_units` without two
    clusters in a variant and two units in a cluster; `zero_variance`.

    Example:
        >>> alike([2, 2], [2, 6], [2, 18])
        Alike(icc=1.0, effect=2.0)
    """
    m, s, q = (np.asarray(one, dtype=np.float64) for one in (sizes, sums, squares))
    arm = np.zeros(len(m), dtype=int) if variant is None else np.asarray(variant)
    known = m > 0
    m, s, q, arm = m[known], s[known], q[known], arm[known]
    arms, units = np.unique(arm), float(m.sum())
    between_df, within_df = len(m) - len(arms), units - len(m)
    if between_df < 1 or within_df < 1:
        raise Refusal("too_few_units", "a correlation needs two clusters, and units within one")
    means = sum(float(s[arm == one].sum()) ** 2 / m[arm == one].sum() for one in arms)
    own = float((s * s / m).sum())
    between, within = (own - means) / between_df, (float(q.sum()) - own) / within_df
    if between + within <= 0:
        raise Refusal("zero_variance", "the values do not vary")
    repeated = sum(float((m[arm == one] ** 2).sum()) / m[arm == one].sum() for one in arms)
    size = (units - repeated) / between_df
    icc = float(max(0.0, (between - within) / (between + (size - 1) * within)))
    return Alike(icc, float(1 + ((m * m).sum() / units - 1) * icc))
