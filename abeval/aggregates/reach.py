"""Count units and impressions of each item, by group of units."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import Engine, query
from abeval.logs.unit_arrays import Groups, downcast, pack_key
from abeval.logs.views import ITEM_GROUPS, write_row_steps

BLOCK = 10_000_000
"""Impressions to group at once, about: grouping takes memory."""


def split_into_blocks(engine: Engine, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Divide numbers up to a size into blocks of about as many rows.

    The numbers are those of units, or of groups of them.
    """
    # On other machines rows lie in parts anyhow, and need not fit into this memory.
    count = rows // BLOCK + 1 if engine.in_process else 1
    edges = np.linspace(0, size, min(count, max(size, 1)) + 1).astype(int).tolist()
    return pairwise(edges)


class Reach(NamedTuple):
    """Hold one entry per variant, group of units and item, sorted by these.

    Attributes:
        items: Ids of all items that were shown, sorted as texts.
        units: Units of the group that were shown the item.
    """

    variants: Sequence[str]
    items: Sequence[str]
    variant: NDArray[np.integer]
    item: NDArray[np.integer]
    item_group: NDArray[np.integer]
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]

    def find_entries(self, variant: str) -> slice:
        """Find the entries of a variant."""
        number = [*self.variants, variant].index(variant)
        return slice(*np.searchsorted(self.variant, [number, number + 1]).tolist())

    def add(self, other: "Reach") -> "Reach":
        """Add other units and impressions of the same variants and items."""
        columns = [np.concatenate(pair) for pair in zip(self[2:], other[2:], strict=True)]
        variant, item, item_group, units, impressions = columns
        groups = Groups.build(pack_key(variant, item_group, item))
        keys = (column[groups.first] for column in (variant, item, item_group))
        sums = (groups.sum(column) for column in (units, impressions))
        return Reach(self.variants, self.items, *keys, *sums)


_NONE = np.zeros(0, dtype=np.int64)
NO_REACH = Reach((), (), _NONE, _NONE, _NONE, _NONE, _NONE)
"""No entries, where no metric is of the catalogue."""

_Items = NDArray[np.integer]


class Catalogue(NamedTuple):
    """Hold who was shown what in the period, and where days are.

    Attributes:
        group: Of each analysed unit, its variant and the group of units in one number.
        days: Where `item_days` is; None without days.
        numbers: The number in `item_days` of each of the items of `reach`.
    """

    reach: Reach = NO_REACH
    group: NDArray[np.integer] = _NONE
    days: Engine | None = None
    numbers: _Items = _NONE

    def select_day(self, day: int, first: int) -> Reach:
        """Return who was shown what on a day, counted from 1970.

        Units that were shown an item since the first day do not count again, so that days add up.
        """
        if self.days is None:
            return NO_REACH
        steps = {"reach_day": f"select {first} as first_day, {day} as day"}
        entries = _ReachEntries.load(self.days, steps, "4_metrics/day_reach")
        return entries.reach(self.reach.variants, self.reach.items, self.numbers)

    def group_units(
        self, units: slice | NDArray[np.integer] = slice(None)
    ) -> dict[tuple[str, int], int]:
        """Count units by variant and group of units."""
        groups, counts = np.unique(self.group[units], return_counts=True)
        return {
            (self.reach.variants[group // ITEM_GROUPS], group % ITEM_GROUPS): count
            for group, count in zip(groups.tolist(), counts.tolist(), strict=True)
        }


class _ReachEntries(NamedTuple):
    """Hold entries of `4_metrics/reach`, in any order."""

    group: NDArray[np.integer]
    item: _Items
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]

    @classmethod
    def load(cls, engine: Engine, steps: Mapping[str, str], name: str) -> "_ReachEntries":
        """Read how many units of each group were shown each item, by the query `name`."""
        read = engine.arrays(engine.write_steps(steps, query(name)))
        names = ("unit_group", "item", "units", "impressions")
        return cls(*(downcast(np.ma.filled(read[n], 0).astype(np.int64)) for n in names))

    def reach(self, variants: Sequence[str], items: Sequence[str], numbers: _Items) -> Reach:
        """Sort the entries, and replace numbers of items by their index."""
        item_index = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.int32)
        item_index[numbers] = np.arange(len(numbers))
        item = item_index[self.item]
        order = np.argsort(self.group * np.int64(max(len(items), 1)) + item)
        arm, item_group = np.divmod(self.group[order], ITEM_GROUPS)
        columns = arm, item[order], item_group, self.units[order], self.impressions[order]
        return Reach(variants, items, *columns)


def read_catalogue(
    engine: Engine,
    variants: Sequence[str],
    group: NDArray[np.integer],
    rows: int,
    columns: Mapping[str, str],
) -> Catalogue:
    """Read who was shown what from `narrow_rows`.

    If rows have a day, `item_days` is kept for windows. `group` is that of each analysed unit, its
    variant and the group of units in one number; there are about so many `rows`. `columns` are
    those of `analysed_rows`.
    """
    entry_blocks, days, dated = list[_ReachEntries](), list[str](), "day" in columns
    for start, end in split_into_blocks(engine, rows, len(variants) * ITEM_GROUPS):
        block = f"narrow_rows where unit_group >= {start} and unit_group < {end}"
        steps = write_row_steps("shown_rows", columns, block)
        entry_blocks.append(_ReachEntries.load(engine, steps, "4_metrics/reach"))
        if dated:
            days.append(f"item_days_{start}")
            engine.table(days[-1], engine.write_steps(steps, query("4_metrics/item_days")))
    if dated:
        engine.view("item_days", " union all ".join(f"select * from {name}" for name in days))
    entries = _ReachEntries(*map(np.concatenate, zip(*entry_blocks, strict=True)))
    names = engine.arrays("select item, item_id from item_names order by item")
    shown_items = np.flatnonzero(np.bincount(entries.item))
    texts = np.asarray(names["item_id"])[shown_items].astype(str)
    # Sorted as texts, sums over items are the same to the last digit in every run.
    order = np.argsort(texts)
    numbers = shown_items[order]
    reach = entries.reach(variants, texts[order].tolist(), numbers)
    return Catalogue(reach, group, engine if dated else None, numbers)
