"""The values of single units, without their ids, where units and their values are few.

`per_unit.py` asks for them while a source's values per unit are at hand; `Aggregates` hands them to
the tests with the moments, for values that are too skewed for sums alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.stats.moments import Moments, Units

FEW_UNITS = 20_000
"""With more units than this in all variants together, sums tell enough."""

FEW_VALUES = 1_000
"""Metrics whose units have more values than this are summed alone, as the query has it."""


class UnitValue(NamedTuple):
    """Values of a metric that some units of a variant have, in counted units; z: they are new."""

    metric: str
    variant: str
    y: float
    x: float
    y0: float
    x0: float
    z: float
    units: int


def units_of(values: Sequence[UnitValue]) -> dict[str, dict[str, Units]]:
    """Metric → variant → values of its units, in counted units, where they are few."""
    known: dict[str, dict[str, list[UnitValue]]] = {}
    for one in values:
        known.setdefault(one.metric, {}).setdefault(one.variant, []).append(one)
    return {
        metric: {name: _units(own) for name, own in sorted(variants.items())}
        for metric, variants in sorted(known.items())
        if sum(map(len, variants.values())) <= FEW_VALUES
    }


def _units(values: Sequence[UnitValue]) -> Units:
    return Units(
        np.array([(one.y, one.x, one.y0, one.x0, one.z) for one in values], dtype=float),
        np.array([one.units for one in values], dtype=int),
    )


def with_units(
    moments: Mapping[str, Moments], units: Mapping[str, Units], scales: tuple[float, float]
) -> dict[str, Moments]:
    """Moments of (y, x, …) by variant, with the values of the units if all are known."""
    worth = np.array([*scales, *scales, 1.0])
    known = {name: one for name, one in units.items() if name in moments}
    each = {
        name: Units((one.values * worth)[:, : moments[name].mean.size], one.counts)
        for name, one in known.items()
        if one.counts.sum() == moments[name].n
    }
    return {name: replace(one, each=each.get(name)) for name, one in moments.items()}
