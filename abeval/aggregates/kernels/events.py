"""Values of impressions over arrays: what stands next to a place, and what lies below a quantile.

The queries `metric/quantile_levels` and `units/quantile_below` define it. `row_pass.py` makes the
`Events` of the whole period, `time/cut.py` takes those of a window out of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.sums import exact_sums
from abeval.logs.unit_arrays import Whole
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Distribution, Step, distribution_of

Place = tuple[str, float]
"""A variant, and a place on the scale of the middles of its values."""


class Span(NamedTuple):
    """The values of a variant's impressions: how many, and the outermost."""

    events: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class Events:
    """The impressions of the period that have a value.

    Attributes:
        variants: Those of the experiment.
        arm: Place of each unit's variant, shape (units,).
        stretch: Number of each unit's stretch.
        unit: Place of the unit of each impression, shape (events,).
        value: Its value, a whole number.
        day: Its local day, counted from 1970; None where no window asks for it.
    """

    variants: Sequence[str]
    arm: NDArray[np.int16]
    stretch: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Whole
    day: NDArray[np.int32] | None = None

    def of_days(self, units: NDArray[np.integer], first: int, last: int) -> "Events":
        """The impressions of some days, of these units; others have none on those days."""
        if self.day is None:
            raise ValueError("the days of the values were not read")
        place = np.zeros(len(self.arm), dtype=np.int32)
        place[units] = np.arange(len(units))
        rows = np.flatnonzero((self.day >= first) & (self.day <= last))
        return replace(
            self,
            arm=self.arm[units],
            stretch=self.stretch[units],
            unit=place[self.unit[rows]],
            value=self.value[rows],
            day=None,
        )

    @property
    def spans(self) -> dict[str, Span]:
        """Variant → how many values it has, and the outermost."""
        return {
            name: Span(len(self._rows[name]), int(levels.values[0]), int(levels.values[-1]))
            for name, levels in self._levels.items()
        }

    def steps(self, places: Sequence[Place]) -> dict[Place, Step]:
        """The neighbouring values of each place that lies between two."""
        steps = {(name, at): self._levels[name].step(at) for name, at in places}
        return {place: step for place, step in steps.items() if step is not None}

    def below(self, steps: Sequence[Mapping[Place, Step]]) -> list[dict[str, Moments]]:
        """Of each quantile: variant → moments over units of the values below it, and of all."""
        return [
            {name: self._moments(name, step, step.weights(at)) for (name, at), step in own.items()}
            for own in steps
        ]

    @cached_property
    def _rows(self) -> dict[str, NDArray[np.intp]]:
        """Variant → its impressions; none of a variant without one."""
        arms = self.arm[self.unit]
        rows = {name: np.flatnonzero(arms == i) for i, name in enumerate(self.variants)}
        return {name: own for name, own in rows.items() if len(own)}

    @cached_property
    def _levels(self) -> dict[str, Distribution]:
        # As whole numbers, which doubles could not tell apart beyond 2^53.
        values: dict[str, NDArray[Any]] = {n: self.value[own] for n, own in self._rows.items()}
        return {name: distribution_of(own) for name, own in values.items()}

    @cached_property
    def _counts(self) -> Whole:
        """How many values each unit has."""
        return np.bincount(self.unit, minlength=len(self.arm))

    def _moments(self, variant: str, step: Step, weights: tuple[int, int]) -> Moments:
        rows = self._rows[variant]
        value = self.value[rows]
        parts = (value < step.lower) * PARTS
        for neighbour, weight in zip((step.lower, step.upper), weights, strict=True):
            parts[value == neighbour] = weight
        below = np.bincount(self.unit[rows], parts, len(self.arm)).astype(np.int64)
        of_variant = self.arm == self.variants.index(variant)
        known = None
        for stretch in np.flatnonzero(np.bincount(self.stretch[of_variant])):
            units = np.flatnonzero(of_variant & (self.stretch == stretch))
            own = _moments_of(below[units], self._counts[units])
            known = own if known is None else known + own
        if known is None:
            raise ValueError(f"no unit is in variant {variant!r}")
        return known


def _moments_of(below: Whole, events: Whole) -> Moments:
    """Moments of parts of values below a quantile, and of all values."""
    sums = exact_sums([below, events], [(0,), (1,), (0, 0), (0, 1), (1, 1)])
    if sums is None:
        raise OverflowError("the values of a unit are too many to be counted")
    (y,), (x,), (y_y,), (y_x,), (x_x,) = sums.values()
    products = [[y_y, y_x], [y_x, x_x]]
    return Moments.from_sums(len(below), [y, x], products, (1 / PARTS, 1.0))
