"""Shares of traffic that changed while the experiment ran.

Where 10 % became 50 %, treatment's units entered later than control's, and whatever differs between
early and late units looks like an effect (Simpson's paradox). Units are then compared within
stretches of entry days of one share, and the stretches are weighed alike in all variants.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from abeval.time.day_sums import Activity

Strata = tuple[tuple[int, ...], ...]

CHANGED = 1e-5
"""P-value below which the shares of two stretches of entry days are not the same."""


def strata_of(activity: Mapping[str, Activity]) -> Strata:
    """Stretches of entry days over which the variants' shares stayed the same.

    Example:
        >>> even, late = np.array([500, 500, 500]), np.array([50, 500, 500])
        >>> none = np.zeros((3, 4, 3), dtype=int)
        >>> strata_of({"a": Activity(even, none), "b": Activity(late, none)})
        ((0,), (1, 2))
    """
    counts = np.array([there.entered for there in activity.values()], dtype=float)
    found: list[list[int]] = []
    for day in range(counts.shape[1]):
        here = counts[:, day]
        if found and _alike(counts[:, found[-1]].sum(axis=1), here):
            found[-1].append(day)
        else:
            found.append([day])
    return tuple(tuple(days) for days in found)


def shares_of(activity: Mapping[str, Activity], strata: Strata) -> list[dict[str, float]]:
    """Each stretch's share of units by variant."""
    return [_shares(activity, days) for days in strata]


def _shares(activity: Mapping[str, Activity], days: Sequence[int]) -> dict[str, float]:
    units = {name: int(there.entered[list(days)].sum()) for name, there in activity.items()}
    total = max(sum(units.values()), 1)
    return {name: n / total for name, n in units.items()}


def _alike(before: NDArray[np.float64], here: NDArray[np.float64]) -> bool:
    """Pearson's test of two stretches having the same shares; few units say nothing."""
    table = np.array([before, here])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return not here.sum() or not before.sum() or bool(table.shape[1] < 2)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    statistic = float(np.sum((table - expected) ** 2 / expected))
    return bool(special.chdtrc(table.shape[1] - 1, statistic) >= CHANGED)
