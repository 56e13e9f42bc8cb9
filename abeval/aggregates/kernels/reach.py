"""Count who was shown what: units and impressions of each item, by one sort of whole numbers."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import Block, Blocks, Column, Room, UnitRows
from abeval.logs.unit_arrays import Places, Whole, added, heads
from abeval.logs.views import ITEM_GROUPS
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
        """Count the bits of the numbers of items, of units, and of days and the day before."""
        days = (self.days + 1).bit_length() if self.days else 0
        return self.items.bit_length(), self.units.bit_length(), days

    @property
    def fit(self) -> bool:
        """Tell whether group, item, unit and day are one whole number of 64 bits together."""
        items, units, days = self.bits
        return self.groups.bit_length() + items + max(units + days, 2 * days) < 64


def shown_in(rows: UnitRows, items: int) -> Places:
    """Return the numbers of the items that were shown in the period, ascending."""

    def shown(block: Block) -> NDArray[np.bool_]:
        met = np.zeros(items + 1, dtype=bool)
        # Only the last place, which is no item, stands for -1.
        met[block.rows["item"][block.of_run(block.runs["in_period"])]] = True
        return met[:-1]

    return np.flatnonzero(reduce(np.logical_or, rows.each(shown, "item")))


def shown(
    rows: UnitRows, group: Whole, item: NDArray[np.int32], sizes: Sizes, room: Room | None = None
) -> Blocks:
    """Count the units and impressions of every item in every group, over the period.

    Args:
        rows: With `item`: the number of the item, -1 without one; with `day` if days are asked.
        group: Of each unit.
        item: What stands for each item, in whose order entries of a group are to be.
        sizes: They fit into one number.
        room: Where to keep the counts, by group; keys are item, day and the day before.
    """
    counts, (items, _, days) = Blocks(sizes.groups, room), sizes.bits
    bits = items + 2 * days
    firsts = np.arange(sizes.groups + 1) << bits
    for one in rows.each(lambda block: _counted(_keys(block, group, item, sizes), sizes), "item"):
        edges = np.searchsorted(one["key"], firsts).tolist()
        counts.add({**one, "key": one["key"] & (1 << bits) - 1}, edges)
    return counts


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


def _counted(keys: Whole, sizes: Sizes) -> dict[str, Column]:
    """Count the distinct units of each group and item, and how often each was met.

    Returns:
        `key` (group and item as one number), `units` of the group that met the item and
        `impressions`. With days, the key ends in the day before, one more than its own number, and
        the day.

    Example:
        >>> counted = _counted(np.array([16, 16, 17, 0]), Sizes(groups=1, items=3, units=7))
        >>> [column.tolist() for column in counted.values()]
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
    met_by, times = np.diff(first, append=key.size), added(times, first)
    counts = {"units": met_by.astype(np.int32), "impressions": times.astype(np.int32)}
    return {"key": key[first], **counts}


class Reach(NamedTuple):
    """One entry per variant, group of units and item that met, in this order, shape (entries,).

    Attributes:
        items: Ids of all items that were shown, sorted as texts, so that sums over them are the
            same to the last digit in every run.
        units: Units of the group that were shown the item.
    """

    variants: Sequence[str]
    items: Sequence[str]
    variant: NDArray[np.integer]
    item: NDArray[np.integer]
    item_group: NDArray[np.integer]
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]

    def of(self, variant: str) -> slice:
        """Return the places of the entries of a variant."""
        number = [*self.variants, variant].index(variant)
        return slice(*np.searchsorted(self.variant, [number, number + 1]).tolist())


_NONE = np.zeros(0, dtype=np.int64)
NO_REACH = Reach((), (), _NONE, _NONE, _NONE, _NONE, _NONE)
"""Without a metric of the catalogue."""


class Catalogue(NamedTuple):
    """Who was shown what in the period, and on which days where windows ask for it.

    Attributes:
        group: Of each analysed unit, its variant and the group of units in one number.
        counts: What `shown` counts, from which days are added up; empty without them.
    """

    reach: Reach
    group: Whole
    counts: Blocks
    sizes: Sizes

    def of_days(self, first: int, last: int) -> Reach:
        """Return who was shown what from one day, counted from 1970, to another."""
        return reach_of(*self.reach[:2], self.counts, self.sizes, (first, last))

    def group_units(
        self, units: slice | NDArray[np.integer] = slice(None)
    ) -> dict[tuple[str, int], int]:
        """Variant and group of units → how many of the units are in it."""
        groups, counts = np.unique(self.group[units], return_counts=True)
        return {
            (self.reach.variants[group // ITEM_GROUPS], group % ITEM_GROUPS): count
            for group, count in zip(groups.tolist(), counts.tolist(), strict=True)
        }


NO_CATALOGUE = Catalogue(NO_REACH, _NONE, Blocks(0), Sizes(0, 0, 0))
"""Where no metric asks for it."""


def reach_of(
    variants: Sequence[str],
    items: Sequence[str],
    counts: Blocks,
    sizes: Sizes,
    window: tuple[int, int] | None = None,
) -> Reach:
    """Add up what `shown` counts, over the period or from one day, since 1970, to another."""
    days = sizes.bits[2]
    first, last = window or (sizes.first - 1, sizes.first + sizes.days - 1)
    since, until = first - sizes.first + 1, last - sizes.first + 1

    def of(number: int) -> tuple[Column, ...]:
        """Return the entries of a group, counted: many times faster than a sort of them."""
        key, units, impressions = counts.read(number).values()
        if days:
            day, before = key & (1 << days) - 1, key >> days & (1 << days) - 1
            units = np.where(before <= since, units, 0)
            own = np.flatnonzero((day >= since) & (day <= until))
            key, units, impressions = key[own] >> 2 * days, units[own], impressions[own]
        times = np.bincount(key, impressions)
        met = np.flatnonzero(times).astype(np.int32)
        units = np.bincount(key, units)[met].astype(np.int32)
        return np.full_like(met, number), met, units, times[met].astype(np.int32)

    groups = zip(*in_threads(of, range(sizes.groups)), strict=True)
    group, item, units, impressions = map(np.concatenate, groups)
    arm, item_group = np.divmod(group, ITEM_GROUPS)
    return Reach(variants, items, arm, item, item_group, units, impressions)
