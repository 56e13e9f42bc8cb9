"""Units and impressions of each item, by one sort of whole numbers: `catalogue/reach`.

Group, item and unit of each impression become one number. Blocks of units are dealt to blocks of
groups, each of which is then sorted by itself.
"""

from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.blocks import Blocks
from abeval.aggregates.kernels.grouping import Whole, heads
from abeval.aggregates.kernels.rows import Block, UnitBlocks
from abeval.threads import in_threads

Groups = NDArray[np.int64]


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
    impressions: Whole


def shown_in(blocks: UnitBlocks, items: int) -> NDArray[np.intp]:
    """The numbers of the items of some blocks, ascending."""
    shown = np.zeros(items + 1, dtype=bool)
    for number in blocks:
        block = blocks.read(number, "item")
        # Only the last place, which is no item, stands for -1.
        shown[block.rows["item"][block.of_run(block.runs["in_period"])]] = True
    return np.flatnonzero(shown[:-1])


def reach_of(
    blocks: UnitBlocks, group: Groups, item: NDArray[np.int32], sizes: Sizes
) -> list[Reach]:
    """Count the units and impressions of every item in every group, over the period.

    Args:
        blocks: With `item`: the number of the item, -1 without one.
        group: Of each unit.
        item: What stands for each item, in whose order entries of a group are to be.
        sizes: They fit.
    """
    count = min(blocks.count, sizes.groups)
    first = np.arange(count + 1) * sizes.groups // count << sum(sizes.bits)
    with closing(Blocks(count, blocks.folder)) as of_groups:

        def deal(number: int) -> None:
            keys = np.sort(_keys(blocks.read(number, "item"), group, item, sizes))
            of_groups.add([keys], np.searchsorted(keys, first).tolist())

        in_threads(deal, blocks)
        return in_threads(lambda number: _counted(of_groups.read(number)[0], sizes), range(count))


def _keys(block: Block, group: Groups, item: NDArray[np.int32], sizes: Sizes) -> Whole:
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


def _counted(keys: Whole, sizes: Sizes) -> Reach:
    """Count the distinct units of each group and item, and how often each was met.

    Example:
        >>> reach = _counted(np.array([16, 16, 17, 0]), Sizes(groups=1, items=3, units=7))
        >>> reach.item.tolist(), reach.units.tolist(), reach.impressions.tolist()
        ([0, 2], [1, 2], [1, 3])
    """
    of_items, of_units = sizes.bits
    ordered = np.sort(keys)
    met = heads(ordered)
    cell = ordered[met] >> of_units
    first = heads(cell)
    units = np.diff(first, append=met.size)
    impressions = np.diff(met[first], append=ordered.size)
    group, item = cell[first] >> of_items, cell[first] & ((1 << of_items) - 1)
    small = [column.astype(np.int32) for column in (group, item, units)]
    return Reach(small[0], small[1], small[2], impressions)
