"""Units and impressions of each item, by one sort of whole numbers: `catalogue/reach`.

Group, item, unit and, for windows, day of each impression become one number. Units of different
blocks differ, so that what each block counts adds up. A unit counts in a window on the first day on
which it is shown the item there, the one whose day before lies before the window.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import Block, Blocks, Room, UnitRows
from abeval.logs.unit_arrays import Places, Whole, added, heads
from abeval.threads import in_threads


class Sizes(NamedTuple):
    """How many groups, items and units there are; all numbers are below these.

    Attributes:
        first: The first day, counted from 1970.
        days: How many days there are; 0 where they are not told apart.
    """

    groups: int
    items: int
    units: int
    first: int = 0
    days: int = 0

    @property
    def bits(self) -> tuple[int, int, int]:
        """How many bits the numbers of items, of units, and of days and the day before need."""
        days = (self.days + 1).bit_length() if self.days else 0
        return self.items.bit_length(), self.units.bit_length(), days

    @property
    def fit(self) -> bool:
        """Whether group, item, unit and day are one whole number of 64 bits together."""
        items, units, days = self.bits
        return self.groups.bit_length() + items + max(units + days, 2 * days) < 64


class Reach(NamedTuple):
    """One entry per group and item that met; small numbers, for there may be millions.

    Attributes:
        group: Ascending, shape (entries,).
        item: Number of the item.
        units: Distinct units of the group that were shown it.
        impressions: How often it was shown to them.
    """

    group: NDArray[np.int32]
    item: NDArray[np.int32]
    units: NDArray[np.int32]
    impressions: NDArray[np.int32]


def shown_in(rows: UnitRows, items: int) -> Places:
    """The numbers of the items that were shown in the period, ascending."""

    def shown(block: Block) -> NDArray[np.bool_]:
        met = np.zeros(items + 1, dtype=bool)
        # Only the last place, which is no item, stands for -1.
        met[block.rows["item"][block.of_run(block.runs["in_period"])]] = True
        return met[:-1]

    met = np.zeros(items, dtype=bool)
    for own in rows.each(shown, "item"):
        met |= own
    return np.flatnonzero(met)


class Shown(NamedTuple):
    """What each block counts, by group; the keys of a group by item, day and the day before."""

    counts: Blocks
    sizes: Sizes

    def reach(self, first: int | None = None, last: int = 0) -> Reach:
        """Add the blocks up, over the period or from one day, counted from 1970, to another."""
        days = self.sizes.bits[2]
        since = 0 if first is None else first - self.sizes.first + 1
        until = self.sizes.days if first is None else last - self.sizes.first + 1

        def of(number: int) -> Reach:
            """The entries of a group, counted: many times faster than a sort of them."""
            key, units, impressions = self.counts.read(number, range(3))
            if days:
                day, before = key & (1 << days) - 1, key >> days & (1 << days) - 1
                units = np.where(before <= since, units, 0)
                own = np.flatnonzero((day >= since) & (day <= until))
                key, units, impressions = key[own] >> 2 * days, units[own], impressions[own]
            times = np.bincount(key, impressions)
            met = np.flatnonzero(times).astype(np.int32)
            units = np.bincount(key, units)[met].astype(np.int32)
            return Reach(np.full_like(met, number), met, units, times[met].astype(np.int32))

        groups = [*in_threads(of, range(self.sizes.groups))]
        return Reach(*map(np.concatenate, zip(*groups, strict=True)))


def shown(
    rows: UnitRows, group: Whole, item: NDArray[np.int32], sizes: Sizes, room: Room | None = None
) -> Shown:
    """Count the units and impressions of every item in every group, over the period.

    Args:
        rows: With `item`: the number of the item, -1 without one; with `day` if days are asked.
        group: Of each unit.
        item: What stands for each item, in whose order entries of a group are to be.
        sizes: They fit.
        room: Where to keep the counts of blocks.
    """
    counts, (items, _, days) = Blocks(sizes.groups, room), sizes.bits
    bits = items + 2 * days
    firsts = np.arange(sizes.groups + 1) << bits
    for one in rows.each(lambda block: _counted(_keys(block, group, item, sizes), sizes), "item"):
        edges = np.searchsorted(one.key, firsts).tolist()
        counts.add([one.key & (1 << bits) - 1, one.units, one.impressions], edges)
    return Shown(counts, sizes)


def _keys(block: Block, group: Whole, item: NDArray[np.int32], sizes: Sizes) -> Whole:
    """Group, item, unit and day of each impression of the period as one number."""
    unit = block.runs["unit"].astype(np.int64)
    of_items, of_units, of_days = sizes.bits
    shown = block.rows["item"]
    used = block.of_run(block.runs["in_period"])
    used &= shown >= 0
    rows = slice(None) if used.all() else np.flatnonzero(used)
    keys: Whole = item[shown[rows]].astype(np.int64)
    keys <<= of_units + of_days
    of_run = (group[unit] << (of_items + of_units)) | unit
    if of_days:
        # Rows without a day come before those of the first day, which is 1.
        since = np.maximum(block.runs["day"].astype(np.int64) - sizes.first + 1, 0)
        of_run = of_run << of_days | since
    keys |= block.of_run(of_run)[rows]
    return keys


class _Counted(NamedTuple):
    """Group and item as one number, the units of the group that met the item, and how often.

    With days, the number ends in the day before, one more than its own number, and the day.
    """

    key: Whole
    units: NDArray[np.int32]
    impressions: NDArray[np.int32]


def _counted(keys: Whole, sizes: Sizes) -> _Counted:
    """Count the distinct units of each group and item, and how often each was met.

    Example:
        >>> counted = _counted(np.array([16, 16, 17, 0]), Sizes(groups=1, items=3, units=7))
        >>> [column.tolist() for column in counted]
        [[0, 2], [1, 2], [1, 3]]
    """
    _, units, days = sizes.bits
    ordered = np.sort(keys)
    met = heads(ordered)
    key, times = ordered[met] >> units + days, np.diff(met, append=ordered.size)
    if days:
        of_unit, day = ordered[met] >> days, ordered[met] & (1 << days) - 1
        before = np.zeros_like(day)
        before[1:] = np.where(of_unit[1:] == of_unit[:-1], 1 + day[:-1], 0)
        key = (key << days | before) << days | day
        order = np.argsort(key)
        key, times = key[order], times[order]
    first = heads(key)
    met_by = np.diff(first, append=key.size).astype(np.int32)
    return _Counted(key[first], met_by, added(times, first).astype(np.int32))
