"""Units and impressions of each item, by one sort of whole numbers: `catalogue/reach`.

Group, item and unit of each impression become one number. Units of different blocks
differ, so that what each block counts adds up.
"""

from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.blocks import Blocks, Room
from abeval.aggregates.kernels.rows import Block, UnitRows
from abeval.logs.grouping import Places, Whole, heads
from abeval.threads import in_threads


class Sizes(NamedTuple):
    """How many groups, items and units there are; all numbers are below these."""

    groups: int
    items: int
    units: int

    @property
    def bits(self) -> tuple[int, int]:
        """How many bits the numbers of items, and those of units, need."""
        return self.items.bit_length(), self.units.bit_length()

    @property
    def fit(self) -> bool:
        """Whether group, item and unit are one whole number of 64 bits together."""
        return self.groups.bit_length() + sum(self.bits) < 64


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


def reach_of(
    rows: UnitRows, group: Whole, item: NDArray[np.int32], sizes: Sizes, room: Room | None = None
) -> Reach:
    """Count the units and impressions of every item in every group, over the period.

    Args:
        rows: With `item`: the number of the item, -1 without one.
        group: Of each unit.
        item: What stands for each item, in whose order entries of a group are to be.
        sizes: They fit.
        room: Where to keep the counts of blocks.
    """

    def of(number: int) -> Reach:
        """The entries of a group, counted: many times faster than a sort of them."""
        items, units, impressions = counts.read(number, range(3))
        times = np.bincount(items, impressions)
        met = np.flatnonzero(times).astype(np.int32)
        own = np.bincount(items, units)[met].astype(np.int32)
        return Reach(np.full_like(met, number), met, own, times[met].astype(np.int32))

    with closing(Blocks(sizes.groups, room)) as counts:
        firsts = np.arange(sizes.groups + 1) << sizes.bits[0]
        for one in rows.each(
            lambda block: _counted(_keys(block, group, item, sizes), sizes), "item"
        ):
            items = one.cell & (1 << sizes.bits[0]) - 1
            edges = np.searchsorted(one.cell, firsts).tolist()
            counts.add([items, one.units, one.impressions], edges)
        of_groups = [*in_threads(of, range(sizes.groups))]
    return Reach(*map(np.concatenate, zip(*of_groups, strict=True)))


def _keys(block: Block, group: Whole, item: NDArray[np.int32], sizes: Sizes) -> Whole:
    """Group, item and unit of each impression of the period as one number."""
    unit = block.runs["unit"].astype(np.int64)
    of_items, of_units = sizes.bits
    shown = block.rows["item"]
    used = block.of_run(block.runs["in_period"])
    used &= shown >= 0
    rows = slice(None) if used.all() else np.flatnonzero(used)
    keys: Whole = item[shown[rows]].astype(np.int64)
    keys <<= of_units
    keys |= block.of_run((group[unit] << (of_items + of_units)) | unit)[rows]
    return keys


class _Counted(NamedTuple):
    """Group and item as one number, the units of the group that met the item, and how often."""

    cell: Whole
    units: NDArray[np.int32]
    impressions: NDArray[np.int32]


def _counted(keys: Whole, sizes: Sizes) -> _Counted:
    """Count the distinct units of each group and item, and how often each was met.

    Example:
        >>> counted = _counted(np.array([16, 16, 17, 0]), Sizes(groups=1, items=3, units=7))
        >>> [column.tolist() for column in counted]
        [[0, 2], [1, 2], [1, 3]]
    """
    ordered = np.sort(keys)
    met = heads(ordered)
    cell = ordered[met] >> sizes.bits[1]
    first = heads(cell)
    units = np.diff(first, append=met.size).astype(np.int32)
    impressions = np.diff(met[first], append=ordered.size).astype(np.int32)
    return _Counted(cell[first], units, impressions)
