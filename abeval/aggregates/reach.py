"""Who was shown what: the rows of `catalogue/reach` as arrays, for there may be millions.

`row_pass.py` makes the `Catalogue`; `collect.py` keeps its `Reach` in the aggregates, `time/cut.py`
takes those of windows out of it, and `store/saved.py` reads one of a file.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.reach import GroupUnits, Shown
from abeval.engines.sql import numbered
from abeval.logs.unit_arrays import Whole
from abeval.logs.views import ITEM_GROUPS


class Reach(NamedTuple):
    """One entry per variant, group of units and item that met, in this order, shape (entries,).

    Attributes:
        variants: Their names.
        items: Ids of all items that were shown, sorted as texts, so that sums over them are the
            same to the last digit in every run.
        variant: Place of the variant.
        item: Place of the item.
        item_group: Group of the units of the variant.
        units: Units of the group that were shown the item.
        impressions: How often it was shown to them.
    """

    variants: Sequence[str]
    items: Sequence[str]
    variant: NDArray[np.integer]
    item: NDArray[np.integer]
    item_group: NDArray[np.integer]
    units: NDArray[np.integer]
    impressions: NDArray[np.integer]

    def of(self, variant: str) -> slice:
        """Places of the entries of a variant."""
        number = [*self.variants, variant].index(variant)
        return slice(*np.searchsorted(self.variant, [number, number + 1]).tolist())


_NONE = np.zeros(0, dtype=np.int64)
NO_REACH = Reach((), (), _NONE, _NONE, _NONE, _NONE, _NONE)
"""Without a metric of the catalogue."""


class Catalogue(NamedTuple):
    """Who was shown what in the period, and on which days where windows ask for it.

    Attributes:
        reach: Over the period.
        group: Of each analysed unit, its variant and the group of units in one number.
        shown: What the days are counted from; None without them.
    """

    reach: Reach
    group: Whole
    shown: Shown | None

    @classmethod
    def of(
        cls, variants: Sequence[str], items: Sequence[str], group: Whole, shown: Shown
    ) -> "Catalogue":
        """The catalogue of what blocks count; days are kept where they were counted."""
        reach = _reach(variants, items, shown)
        return cls(reach, group, shown if shown.sizes.days else None)

    def of_days(self, first: int, last: int) -> Reach:
        """Who was shown what from one day, counted from 1970, to another."""
        if self.shown is None:
            raise ValueError("the days on which items were shown were not read")
        return _reach(self.reach.variants, self.reach.items, self.shown, (first, last))

    def group_units(self, units: slice | NDArray[np.integer] = slice(None)) -> list[GroupUnits]:
        """How many of the units are in each group of a variant."""
        groups, counts = np.unique(self.group[units], return_counts=True)
        return [
            GroupUnits(self.reach.variants[group // ITEM_GROUPS], group % ITEM_GROUPS, count)
            for group, count in zip(groups.tolist(), counts.tolist(), strict=True)
        ]


def _reach(
    variants: Sequence[str], items: Sequence[str], shown: Shown, days: tuple[int, int] | None = None
) -> Reach:
    group, item, units, impressions = shown.reach(*(days or ()))
    arm, group = np.divmod(group, ITEM_GROUPS)
    return Reach(variants, items, arm, item, group, units, impressions)


def items_sql(relation: str) -> str:
    """SQL of the items of a relation with the columns of `catalogue/reach`."""
    item = "cast(item_id as varchar) as item_id"
    return f"select distinct {item} from {relation} order by item_id"


def entries_sql(relation: str, variants: Sequence[str]) -> str:
    """SQL of the arrays of its entries, in the order of the fields of `Reach`."""
    return (
        f"select {numbered('variant', variants)} as variant, "
        "dense_rank() over (order by cast(item_id as varchar)) - 1 as item, "
        "item_group, units, impressions "
        f"from {relation} order by variant, item_group, item"
    )
