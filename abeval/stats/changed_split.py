"""Where the traffic split changed: stretches of days over which it stayed the same.

`logs/placing.py` hands over the units that entered on each day, by variant; `inference/` and
`time/` then compare units within stretches.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.records import Floats, Refusal

CHANGED = 1e-6
"""P-value, for one day or one cut, below which the split is not the same throughout."""

APART = 1e-3
"""P-value below which two stretches are apart, once the split is known to have changed.

A change that is missed biases, one too many costs hardly anything.
"""


def stretches(counts: ArrayLike) -> tuple[range, ...]:
    """Stretches of days of one split; a single one where nothing says that it changed.

    The split has changed if the days before some cut, or one day, differ from all others by the
    likelihood ratio of multinomial counts (p < `CHANGED`). The cuts are then those that maximise
    the likelihood less a penalty for each (Jackson et al. 2005, optimal partitioning).

    Args:
        counts: Units that entered on each day in each variant, shape (days, variants).

    Raises:
        Refusal: `not_applicable` for counts of another shape, or negative ones.

    Example:
        >>> stretches([[90, 10], [92, 8], [51, 49], [48, 52]])
        (range(0, 2), range(2, 4))
        >>> stretches([[50, 50], [46, 54], [51, 49]])
        (range(0, 3),)
    """
    table = np.asarray(counts, dtype=float)
    if table.ndim != 2 or len(table) == 0 or np.any(table < 0):
        raise Refusal("not_applicable", "counts of units by day and variant, not negative")
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not _has_changed(table):
        return (range(len(table)),)
    return _best(table, _critical(APART, table.shape[1]))


def _critical(p_value: float, variants: int) -> float:
    return float(special.chdtri(variants - 1, p_value))


def _has_changed(table: Floats) -> bool:
    """Whether a day, or the days up to some day, have another split than all others."""
    total, before = table.sum(axis=0), np.cumsum(table, axis=0)[:-1]
    parts = np.concatenate([before, table])
    ratio = 2 * (_fit(parts) + _fit(total - parts) - _fit(total))
    return bool(np.any(ratio > _critical(CHANGED, table.shape[1])))


def _best(table: Floats, penalty: float) -> tuple[range, ...]:
    """The partition of the days with the largest likelihood less the penalty of its cuts."""
    sums = np.vstack([np.zeros(table.shape[1]), np.cumsum(table, axis=0)])
    best, start = np.zeros(len(sums)), np.zeros(len(sums), dtype=int)
    for end in range(1, len(sums)):
        values = best[:end] + 2 * _fit(sums[end] - sums[:end]) - penalty
        start[end] = int(np.argmax(values))
        best[end] = values[start[end]]
    cuts = [len(table)]
    while cuts[-1] > 0:
        cuts.append(int(start[cuts[-1]]))
    cuts.reverse()
    return tuple(range(a, b) for a, b in pairwise(cuts))


def _fit(counts: Floats) -> Floats:
    """Log-likelihood of counts at their own shares, over the last axis."""
    total = counts.sum(axis=-1)
    return np.asarray(special.xlogy(counts, counts).sum(axis=-1) - special.xlogy(total, total))
