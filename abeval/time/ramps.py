"""Traffic shares that changed while the experiment ran.

Where 10 % became 50 %, treatment's units entered later than control's, and whatever differs between
early and late units looks like an effect (Simpson's paradox). Units are then compared within
stretches of entry days of one share, and the stretches are weighed alike in all variants.
`time/analysis.py` asks for them, from the `Activity` of `time/time_sums.py`; `time/axes.py` weighs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from abeval.stats.arrays import Floats
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
    counts = np.array([units.entered for units in activity.values()], dtype=float)
    strata: list[list[int]] = []
    for day in range(counts.shape[1]):
        of_day = counts[:, day]
        if strata and _same_shares(counts[:, strata[-1]].sum(axis=1), of_day):
            strata[-1].append(day)
        else:
            strata.append([day])
    return tuple(tuple(days) for days in strata)


def shares_of(activity: Mapping[str, Activity], strata: Strata) -> list[dict[str, float]]:
    """Each stretch's share of units by variant."""
    return [_shares(activity, days) for days in strata]


def _shares(activity: Mapping[str, Activity], days: Sequence[int]) -> dict[str, float]:
    units = {name: int(active.entered[list(days)].sum()) for name, active in activity.items()}
    total = max(sum(units.values()), 1)
    return {name: n / total for name, n in units.items()}


def _same_shares(before: Floats, of_day: Floats) -> bool:
    """Pearson's test of two stretches having the same shares; true where one has no units."""
    table = np.array([before, of_day])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return True
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    statistic = float(np.sum((table - expected) ** 2 / expected))
    return bool(special.chdtrc(table.shape[1] - 1, statistic) >= CHANGED)
