"""Units and impressions of each item, by one sort of whole numbers: `catalogue/reach`.

Group, item and unit of each impression become one number. Blocks of units are dealt to blocks of
groups, each of which is then sorted by itself.
"""

from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.blocks import Blocks
from abeval.aggregates.kernels.rows import Block, UnitBlocks
from abeval.logs.grouping import Whole, heads
from abeval.threads import in_threads

Groups = NDArray[np.int64]


class Sizes(NamedTuple):
    """How many groups, items and units there are; all numbers are below these."""

    groups: int
    items: int
    units: int

    @property
    def fit(self) -> bool:
        """Whether group, item and unit are one whole number of 64 bits together."""
        return self.groups * self.items * self.units < 1 << 63


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


def reach_of(blocks: UnitBlocks, group: Groups, sizes: Sizes) -> list[Reach]:
    """Count the units and impressions of every item in every group, over the period.

    Args:
        blocks: With `item`: the number of the item, -1 without one.
        group: Of each unit.
        sizes: They fit.
    """
    count = min(blocks.count, sizes.groups)
    with closing(Blocks(count, blocks.folder)) as of_groups:

        def deal(number: int) -> None:
            keys = _keys(blocks.read(number), group, sizes)
            place = (keys // (sizes.items * sizes.units) * count // sizes.groups).astype(np.uint16)
            order = np.argsort(place, kind="stable")
            edges = np.searchsorted(place[order], np.arange(count + 1))
            of_groups.add([keys[order]], edges.tolist())

        in_threads(deal, blocks)
        return in_threads(lambda number: _counted(of_groups.read(number)[0], sizes), range(count))


def _keys(block: Block, group: Groups, sizes: Sizes) -> Whole:
    """Group, item and unit of each impression of the period as one number."""
    unit = block.runs["unit"].astype(np.int64)
    key = group[unit] * (sizes.items * sizes.units) + unit
    used = block.of_run("in_period") & (block.rows["item"] >= 0)
    rows = slice(None) if used.all() else np.flatnonzero(used)
    item = block.rows["item"][rows].astype(np.int64)
    keys: Whole = key[block.run[rows]] + item * sizes.units
    return keys


def _counted(keys: Whole, sizes: Sizes) -> Reach:
    """Count the distinct units of each group and item, and how often each was met.

    Example:
        >>> reach = _counted(np.array([14, 14, 15, 0]), Sizes(groups=1, items=3, units=7))
        >>> reach.item.tolist(), reach.units.tolist(), reach.impressions.tolist()
        ([0, 2], [1, 2], [1, 3])
    """
    ordered = np.sort(keys)
    met = heads(ordered)
    cell = ordered[met] // sizes.units
    first = heads(cell)
    units = np.diff(first, append=met.size)
    impressions = np.diff(met[first], append=ordered.size)
    group, item = np.divmod(cell[first], sizes.items)
    small = [column.astype(np.int32) for column in (group, item, units)]
    return Reach(small[0], small[1], small[2], impressions)
