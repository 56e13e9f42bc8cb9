"""Beyond accuracy: novelty, serendipity, diversity per list; coverage and evenness per traffic.

`offline/sums/run.py` calls it with `model_items`, the candidates of one model;
`offline/estimates/group_values.py` turns the listed items into coverage and evenness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from abeval.engines.protocol import Engine
from abeval.engines.sql import query
from abeval.offline.kernels import UnitValues
from abeval.offline.metrics import OfflineMetric
from abeval.offline.sums.cutoffs import add_request_values, write_cutoffs
from abeval.stats.exposure import coverage, entropy_of_sets, gini_of_sets
from abeval.stats.records import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd

_HISTORY = ("self_information", "miuf", "popularity", "serendipity")


def write_history(engine: Engine, history: str | None, catalogue: int) -> None:
    """Make `popularity` and `history_size` of earlier choices and `catalogue` items."""
    empty = "select null as unit_id, null as item_id where false"
    engine.view("history", history or empty)
    engine.table("popularity", query("offline/popularity"))
    engine.table(
        "history_size",
        "select cast(count(*) as double) as interactions, "
        f"cast(count(distinct unit_id) as double) as users, {catalogue} as items from history",
    )


def needs_history(metric: OfflineMetric) -> bool:
    """Whether a metric reads how often items were chosen before."""
    return metric.definition.numerator in _HISTORY


def add_lists(
    engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues
) -> pd.DataFrame | None:
    """Add the sums per unit of metrics of lists, read from `model_items`.

    Returns:
        The rows of `listed_items.sql`: in how many lists each item is; None if no metric needs it.
    """
    wanted = [m for m in metrics if m.definition.family in ("beyond", "catalogue")]
    if not wanted:
        return None
    ks = sorted({m.cutoff for m in wanted})
    write_cutoffs(engine, ks)
    engine.view("deepest", f"select {max(ks)} as k")
    engine.table("top_items", query("offline/top_items"))
    numerators = {m.definition.numerator for m in wanted}
    queries = {
        "beyond_values": numerators.intersection(_HISTORY),
        "vector_values": "ild_vectors" in numerators,
        "category_values": "ild" in numerators,
    }
    for name in (name for name, needed in queries.items() if needed):
        add_request_values(engine, query(f"offline/{name}"), ks, values)
    return engine.frame(query("offline/listed_items"))


@dataclass(frozen=True)
class Listed:
    """In how many lists each item is, by item (rows) and set of units (columns).

    Attributes:
        lists: Lists that hold the item, shape (items, sets).
        weight: Sums of its weights in them, of lists normed to length one.
        squared: Sums of squared weights.
        units: Units with such a list.
        total: Lists of each set, shape (sets,).
        all_units: Units of each set with a list.
        equal: Units of the smallest traffic.
        catalogue: Items that could have been listed.
    """

    lists: Floats
    weight: Floats
    squared: Floats
    units: Floats
    total: Floats
    all_units: Floats
    equal: int
    catalogue: int

    @classmethod
    def of(
        cls, frame: pd.DataFrame, total: Floats, all_units: Floats, equal: int, catalogue: int
    ) -> Listed:
        """From rows of `listed_items.sql` of one traffic and cut-off; the sets are groups."""
        item = frame["item_id"].factorize()[0]
        cell = item * total.size + frame["unit_group"].to_numpy(dtype=np.int64)
        shape = (int(item.max()) + 1 if item.size else 0, total.size)
        sums = (
            np.bincount(cell, weights=frame[c].to_numpy(np.float64), minlength=shape[0] * shape[1])
            for c in ("lists", "weight", "squared_weight", "units")
        )
        lists, weight, squared, units = (
            np.asarray(s, dtype=np.float64).reshape(shape) for s in sums
        )
        return cls(lists, weight, squared, units, total, all_units, equal, catalogue)

    def whole(self) -> Listed:
        """All groups as one set."""
        return self._mapped(lambda matrix: matrix.sum(axis=-1, keepdims=True))

    def without(self, groups: Integers) -> Listed:
        """For each of some groups, the set of all other groups."""
        return self._mapped(lambda matrix: matrix.sum(axis=-1, keepdims=True) - matrix[..., groups])

    def _mapped(self, to: Callable[[Floats], Floats]) -> Listed:
        return replace(
            self,
            lists=to(self.lists),
            weight=to(self.weight),
            squared=to(self.squared),
            units=to(self.units),
            total=to(self.total),
            all_units=to(self.all_units),
        )

    def values(self, name: str) -> Floats | None:
        """Coverage, evenness or personalisation of each set, None where one has no lists.

        Args:
            name: The metric's numerator: `coverage`, `coverage_equal`, `gini`, `gini_listed`,
                `entropy` or `personalisation`.

        Example:
            >>> in_lists, three = np.array([[2.0], [1], [2], [1]]), np.array([3.0])
            >>> listed = Listed(in_lists, in_lists, in_lists, in_lists, three, three, 1, 5)
            >>> listed.values("coverage"), listed.values("coverage_equal")
            (array([0.8]), array([0.4]))
        """
        if not self.lists.size or (self.lists.sum(axis=0) < 0.5).any():
            return None
        match name:
            case "coverage":
                return np.asarray((self.lists > 0.5).sum(axis=0) / self.catalogue)
            case "coverage_equal":
                return self._rarefied()
            case "gini":
                return gini_of_sets(self.lists.T, max(self.catalogue, len(self.lists)))
            case "gini_listed":
                sets = (column[column > 0.5][None] for column in self.lists.T)
                return np.asarray(np.concatenate([gini_of_sets(s, s.size) for s in sets]))
            case "entropy":
                return np.asarray(entropy_of_sets(self.lists.T) / np.log(2))
        if (self.total < 2).any():
            return None
        # A pair's cosine is a sum over items, so sums over items are enough.
        cosines: Floats = (self.weight**2 - self.squared).sum(axis=0)
        return np.asarray(1 - cosines / (self.total * (self.total - 1)))

    def _rarefied(self) -> Floats:
        """Expected distinct items, rarefied to the smallest variant (Hurlbert 1971)."""
        size = max(self.catalogue, len(self.lists))
        sets = zip(self.units.T, self.all_units.astype(np.int64), strict=True)
        return np.array(
            [coverage(units, int(of), min(self.equal, int(of)), size) for units, of in sets]
        )
