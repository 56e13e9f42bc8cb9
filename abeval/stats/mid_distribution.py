"""The mid-distribution (Parzen 2004): where a quantile stands between neighbouring values.

It is the share of values below v, plus half the share of those that are v, read between
neighbouring values as a straight line. Without ties its quantile is the sample quantile; with ties
it moves with every value.

`quantiles.py` reads arrays by it; `aggregates/quantiles.py` reads the neighbours from the log.
"""

from typing import NamedTuple

import numpy as np

from abeval.stats.records import Floats, Integers

PARTS = 2_000_000
"""A value that is below a quantile counts so much, one of its neighbours in part: whole numbers."""


class Step(NamedTuple):
    """Two neighbouring values, with twice the values below each plus those that are it.

    Attributes:
        lower: The lower value.
        lower_middle: Twice the number of values below it, plus the number of values equal to it.
        upper: The next value that occurs.
        upper_middle: The same count for it.
    """

    lower: float
    lower_middle: int
    upper: float
    upper_middle: int

    def share(self, at: float) -> float:
        """How far a place, on the scale of the middles, is from the lower value to the upper."""
        return (at - self.lower_middle) / (self.upper_middle - self.lower_middle)

    def value(self, at: float) -> float:
        """The value at a place, on the line between the two.

        Example:
            >>> Step(7.0, 90, 8.0, 110).value(100)
            7.5
        """
        return self.lower + (self.upper - self.lower) * self.share(at)

    def weights(self, at: float) -> tuple[int, int]:
        """How far the lower and the upper value count as below a place, in parts of `PARTS`.

        Half of the lower value's middle and of the upper's would be below it at either end; in
        between, what adds up to the place itself.

        Example:
            >>> Step(7.0, 90, 8.0, 110).weights(100)
            (1500000, 500000)
        """
        upper = round(PARTS / 2 * self.share(at))
        return PARTS // 2 + upper, upper


def place(n: int, level: float) -> float:
    """Where the quantile of n values is on the scale of the middles of `Step`: 2·n·level.

    Example:
        >>> place(50, 0.9)
        90.0
    """
    if not 0 < level < 1:
        raise ValueError(f"a quantile level lies between 0 and 1, got {level}")
    return 2 * n * level


class Distribution(NamedTuple):
    """The values that occur, in order, and the middles of `Step`."""

    values: Floats
    middles: Integers

    def step(self, at: float) -> Step | None:
        """The neighbours of a place, None beyond the middle of the first or the last value."""
        i = int(np.searchsorted(self.middles, at, side="right")) - 1
        if i < 0 or i + 1 >= self.middles.size:
            return None
        lower, upper = self.values[i : i + 2].tolist()
        return Step(lower, int(self.middles[i]), upper, int(self.middles[i + 1]))


def distribution_of(values: Floats) -> Distribution:
    """The distribution of some values, shape (n,).

    Example:
        >>> distribution_of(np.array([7.0, 8.0, 7.0])).step(3)
        Step(lower=7.0, lower_middle=2, upper=8.0, upper_middle=5)
    """
    distinct, counts = np.unique(values, return_counts=True)
    return Distribution(distinct, 2 * np.cumsum(counts) - counts)
