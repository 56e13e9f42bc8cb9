"""Intervals for values that are not sums over units: leave out one group of units at a time.

`offline/estimates/group_values.py` hands it the values without each group;
`offline/estimates/pairs.py` compares two models by it.
"""

import math
from collections.abc import Sequence

import numpy as np

from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.inference import MIN_UNITS, Value, with_interval
from abeval.stats import effects
from abeval.stats.records import Effect, Floats, Integers, Refusal

_FEWEST = 8
"""Fewer groups than this have no interval."""


def standard_error(without: Floats) -> float:
    """Delete-a-group jackknife (Efron and Stein 1981), shape (groups,) → one number.

    Example:
        >>> round(standard_error(np.array([1.0, 2.0, 3.0])), 4)
        1.1547
    """
    groups = without.size
    return math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))


def estimate(value: float, without: Floats, units: int, alpha: float) -> Value:
    """A value with its interval, t with groups − 1 degrees of freedom.

    `without` is the value without each group that has units, shape (groups,).
    """
    if units < MIN_UNITS or without.size < _FEWEST:
        return Value(value, reason="too_few_units")
    return with_interval(value, standard_error(without), without.size - 1, alpha)


def compare(
    values: Sequence[float], without: Sequence[Floats], units: int, alpha: float
) -> Effect | str:
    """Two models over the same groups of units; a reason where they cannot be compared."""
    if units < MIN_UNITS or without[0].size < _FEWEST:
        return "too_few_units"
    se = standard_error(without[1] - without[0])
    try:
        return effects.from_difference(
            *(values[0], values[1], values[1] - values[0], se, without[0].size - 1),
            alpha=alpha,
            method="paired_jackknife_t",
        )
    except Refusal as refusal:
        return refusal.reason


def used(group: Integers) -> Integers:
    """The groups that have units."""
    return np.flatnonzero(np.bincount(group, minlength=UNIT_GROUPS))
