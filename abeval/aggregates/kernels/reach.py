"""Units and impressions of each item, by one sort of whole numbers: `catalogue/reach.sql`.

`reach_pass.py` packs group, item and unit of each impression into one key, and hands it the keys of
a block; their counts become rows of `catalogue/reach`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


class Keys(NamedTuple):
    """Packs a group, an item and a unit into one whole number, in this order.

    Attributes:
        item_bits: Enough for the number of every item.
        unit_bits: Enough for the number of every unit.
    """

    item_bits: int
    unit_bits: int

    @classmethod
    def of(cls, items: int, units: int) -> "Keys":
        """Room for items below one number and units below another.

        Example:
            >>> Keys.of(items=10, units=100)
            Keys(item_bits=4, unit_bits=7)
        """
        return cls((items - 1).bit_length(), (units - 1).bit_length())

    def fits(self, groups: int) -> bool:
        """Whether the keys of so many groups are whole numbers of 64 bits, their parts of 32."""
        if max(self.item_bits, self.unit_bits) > 31:
            return False
        return (groups - 1).bit_length() + self.item_bits + self.unit_bits < 64

    def group(self, key: Whole) -> Whole:
        """The group of each key."""
        return key >> (self.item_bits + self.unit_bits)


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


def reach_of(keys: Whole, packing: Keys) -> Reach:
    """Count the units and impressions of every item in every group.

    Args:
        keys: One for each impression, in any order.
        packing: How they were packed.

    Example:
        >>> packing = Keys(item_bits=4, unit_bits=8)
        >>> reach = reach_of(np.array([0x2305, 0x2305, 0x2306, 0x0107]), packing)
        >>> reach.group.tolist(), reach.item.tolist()
        ([0, 2], [1, 3])
        >>> reach.units.tolist(), reach.impressions.tolist()
        ([1, 2], [1, 3])
    """
    ordered = np.sort(keys)
    met = np.flatnonzero(np.diff(ordered, prepend=-1))
    cell = ordered[met] >> packing.unit_bits
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    units = np.diff(first, append=met.size)
    impressions = np.diff(met[first], append=ordered.size)
    cell = cell[first]
    item, group = cell & ((1 << packing.item_bits) - 1), cell >> packing.item_bits
    small = [column.astype(np.int32) for column in (group, item, units)]
    return Reach(small[0], small[1], small[2], impressions)
