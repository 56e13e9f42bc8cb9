"""Draw which of two variants each cluster has in each slot of time."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.assignment.draws import md5_60

Schedule = Literal["balanced", "coin", "alternating"]
"""How slots were drawn: in pairs of days, one by one, or alternating."""

_FORTNIGHT, _WEEK = 14, 7


class SlotCoins(NamedTuple):
    """Slots of one cluster: each slot's coin, and its side of the coin."""

    coin: NDArray[np.int64]
    side: NDArray[np.bool_]


def draw_slot_coins(schedule: Schedule, slots: ArrayLike, per_day: int, days: int) -> SlotCoins:
    """Return the coin that decides each slot, and the slot's side of it.

    A balanced schedule pairs a weekday with the same weekday a week later: each time of day has one
    variant on one of them and the other variant on the other. Days without such a partner are
    paired in their order, and a last one stays alone.

    Example:
        >>> [one.tolist() for one in draw_slot_coins("balanced", [0, 1, 2, 3], per_day=2, days=2)]
        [[14, 15, 14, 15], [False, False, True, True]]
    """
    slot = np.asarray(slots, dtype=np.int64)
    day, time = np.divmod(slot, per_day)
    if schedule == "coin":
        return SlotCoins(slot, np.zeros(len(slot), dtype=bool))
    if schedule == "alternating":
        return SlotCoins(day, time % 2 == 1)
    fortnight, offset = np.divmod(np.arange(days), _FORTNIGHT)
    pair, second = fortnight * _WEEK + offset % _WEEK, offset >= _WEEK
    # Days without a partner a week later are paired in their order.
    lone = np.flatnonzero(~second & (np.arange(days) + _WEEK >= days))
    order = np.arange(len(lone))
    pair[lone], second[lone] = _WEEK * (days // _FORTNIGHT + 1) + order // 2, order % 2 == 1
    return SlotCoins(pair[day] * per_day + time, second[day])


class Slot(NamedTuple):
    """The variant of a cluster between two local times."""

    cluster: str
    start: datetime
    end: datetime
    variant: str


def build_schedule(
    clusters: Sequence[str],
    variants: tuple[str, str],
    period: tuple[datetime, datetime],
    length: timedelta,
    salt: str,
    schedule: Schedule = "balanced",
) -> Iterator[Slot]:
    """Yield the schedule of clusters, determined by the salt alone.

    Example:
        >>> period = datetime(2026, 9, 14), datetime(2026, 9, 16)
        >>> [one.variant for one in build_schedule(["Rome"], ("a", "b"), period, timedelta(1), "x")]
        ['a', 'b']
    """
    start, end = period
    per_day, days = timedelta(1) // length, -((start - end) // timedelta(1))
    count = -((start - end) // length)
    coins, sides = draw_slot_coins(schedule, range(count), per_day, days)
    for cluster in clusters:
        for number, (coin, side) in enumerate(zip(coins.tolist(), sides.tolist(), strict=True)):
            begins = start + number * length
            # The coin of the cluster; `side` gives partner slots opposite variants.
            index = (md5_60(salt, f"{cluster}:{coin}") + side) % 2
            yield Slot(cluster, begins, min(begins + length, end), variants[index])
