"""Who was shown what: the rows of `catalogue/reach` as arrays, for there may be millions.

`collect.py` keeps those of `row_pass.py` in the aggregates; `time/cut.py` makes those of a window,
and `store/saved.py` those of a file.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine
from abeval.engines.sql import numbered


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


def queried_reach(engine: Engine, sql: str, variants: Sequence[str]) -> Reach:
    """The answer of a query with the columns of `catalogue/reach`."""
    engine.table("reached", sql)
    items = [str(item) for (item,) in engine.rows(items_sql("reached"))]
    columns = engine.arrays(entries_sql("reached", variants)).values()
    return Reach(variants, items, *(column.astype(np.int64) for column in columns))
