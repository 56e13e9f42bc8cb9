"""Formulas of the offline metrics, for `offline/sums/` and `offline/kernels/`."""

import math

import numpy as np

from abeval.stats.records import Floats

GRADED = frozenset({"concordant", "won_graded"})
"""Numerators of FCP: they count pairs of unequal relevance, whatever its levels.

They have a kernel only where relevance is binary.
"""

_LONGEST = 1_000_000


def ratio(above: Floats, below: Floats | float) -> Floats:
    """Above / below, element by element; 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=np.asarray(below) > 0)


def full_ideal(k: int) -> float | None:
    """DCG of k relevant items in multiples of 1e-12; None for a k beyond the length of any list.

    Example:
        >>> full_ideal(1)
        1000000000000.0
    """
    if k > _LONGEST:
        return None
    return float(sum(round(1e12 / math.log2(1 + i)) for i in range(1, k + 1)))


def graded_orders(won_halves: Floats, tied: Floats, pairs: Floats) -> dict[str, Floats]:
    """The columns of FCP per unit; `won_halves` is 2 × pairs in order + tied pairs."""
    return {
        "graded": pairs,
        "won_graded": won_halves / 2,
        "concordant": (won_halves - tied) / 2,
        "ordered": pairs - tied,
    }
