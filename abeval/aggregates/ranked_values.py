"""Rank the values of impressions, and count each unit's below a quantile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.sums import sum_products_exactly
from abeval.logs.unit_arrays import Integers
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Distribution, build_distribution


@dataclass(frozen=True)
class RankedValues:
    """Hold the impressions of one variant that have a value.

    Attributes:
        split_period: Number of the split period of each unit of the variant, shape (units,).
        unit: Index of a unit among these, with each of its values, shape (values,).
        value: A value of it, a whole number.
        events: How many of its impressions have the value.
    """

    split_period: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Integers
    events: NDArray[np.integer]

    @cached_property
    def size(self) -> int:
        """Count the impressions."""
        return int(self.events.sum())

    @cached_property
    def levels(self) -> Distribution:
        """Return the distribution of the values."""
        # As whole numbers, which doubles could not tell apart beyond 2^53.
        values: NDArray[Any] = self.value
        return build_distribution(values, self.events)

    def below(self, at: float) -> Moments | None:
        """Return moments over units of values below a position, and of all values.

        None where the position is beyond the values.
        """
        step, size = self.levels.step(at), len(self.split_period)
        if step is None:
            return None
        parts = (self.value < step.lower) * PARTS
        for neighbour, weight in zip((step.lower, step.upper), step.weights(at), strict=True):
            parts[self.value == neighbour] = weight
        below = np.bincount(self.unit, parts * self.events, size).astype(np.int64)
        counts = np.bincount(self.unit, self.events, size).astype(np.int64)
        of_stretches = (self.split_period == number for number in np.unique(self.split_period))
        return reduce(
            add, (_make_moments(below[chosen], counts[chosen]) for chosen in of_stretches)
        )


@dataclass(frozen=True)
class UnitValues:
    """Hold the values that each unit has in the period (`4_metrics/quantile`).

    Attributes:
        arm: Index of each unit's variant, shape (units,).
        unit: Index of a unit, with each of its values, shape (values,).
        value: A value of it, a whole number.
        events: How many of its impressions have the value.
        day: Their local day, counted from 1970; empty where no window asks for it.
    """

    variants: Sequence[str]
    arm: NDArray[np.int8]
    split_period: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Integers
    events: NDArray[np.integer]
    day: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def select_days(self, units: NDArray[np.integer], first: int, last: int) -> "UnitValues":
        """Select the values of some units on some days."""
        new_index = np.zeros(len(self.arm), dtype=np.int32)
        new_index[units] = np.arange(len(units))
        rows = np.flatnonzero((self.day >= first) & (self.day <= last))
        unit_columns = self.arm[units], self.split_period[units], new_index[self.unit[rows]]
        return UnitValues(self.variants, *unit_columns, self.value[rows], self.events[rows])

    @cached_property
    def variant_values(self) -> dict[str, RankedValues]:
        """Return variant → its values; none of a variant without one."""
        ranked, arms = dict[str, RankedValues](), self.arm[self.unit]
        new_index = np.zeros(len(self.arm), dtype=np.int32)
        for number, name in enumerate(self.variants):
            rows, units = np.flatnonzero(arms == number), np.flatnonzero(self.arm == number)
            new_index[units] = np.arange(len(units))
            if len(rows):
                value_columns = new_index[self.unit[rows]], self.value[rows], self.events[rows]
                ranked[name] = RankedValues(self.split_period[units], *value_columns)
        return ranked


def _make_moments(below: Integers, events: Integers) -> Moments:
    """Make moments of shares of values below a quantile, and of all values."""
    sums = sum_products_exactly([below, events], [(0,), (1,), (0, 0), (0, 1), (1, 1)])
    (y,), (x,), (y_y,), (y_x,), (x_x,) = sums.values()
    products = [[y_y, y_x], [y_x, x_x]]
    return Moments.from_sums(len(below), [y, x], products, (1 / PARTS, 1.0))
