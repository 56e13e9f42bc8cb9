"""Beyond accuracy: novelty, serendipity, diversity per list; coverage and evenness per traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.units import FINE, Floats, UnitValues, cut_column, value_columns
from abeval.stats.exposure import coverage, entropy_of_sets, gini_of_sets

if TYPE_CHECKING:
    import pandas as pd

_HISTORY = ("self_information", "miuf", "popularity", "serendipity")


def write_history(engine: Engine, history: str | None, catalogue: int) -> None:
    """Make `popularity` and `history_size`.

    Args:
        engine: Where the queries run.
        history: SQL of `unit_id, item_id`, one row per earlier choice; None where there is none.
        catalogue: Items that could be listed.
    """
    nothing = "select null as unit_id, null as item_id where false"
    engine.view("history", history or nothing)
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
    """Add sums per unit of what lists are like, read from `model_items`.

    Returns:
        `traffic, k, item_id, unit_group, lists, weight, squared_weight`: who stands in how many
        lists; None
        where no metric asks.
    """
    wanted = [m for m in metrics if m.definition.family in ("beyond", "catalogue")]
    if not wanted:
        return None
    ks = sorted({m.cutoff for m in wanted})
    rows = ", ".join(f"(cast({k} as bigint))" for k in ks)
    engine.view("cutoffs", f"select * from (values {rows}) as v (k)")
    engine.view("deepest", f"select {max(ks)} as k")
    engine.table("top_items", query("offline/top_items"))
    numerators = {m.definition.numerator for m in wanted}
    if numerators & set(_HISTORY):
        _add(engine, "beyond_values", ks, values)
    if "ild_vectors" in numerators:
        _add(engine, "vector_values", ks, values)
    if "ild" in numerators:
        _add(engine, "category_values", ks, values)
    return engine.frame(query("offline/listed_items"))


def _add(engine: Engine, source: str, ks: Sequence[int], values: UnitValues) -> None:
    engine.view("wanted_values", query(f"offline/{source}"))
    frame = engine.frame(query("offline/unit_values"))
    for k in ks:
        names = {name: cut_column(name.removeprefix("v_"), k) for name in value_columns(frame)}
        values.add(frame[frame["k"] == k], names, FINE)


@dataclass(frozen=True)
class Listed:
    """Who stands in how many lists, by item (rows) and by group of units or another set (columns).

    Attributes:
        lists: Lists that hold the item, shape (items, sets).
        weight: Sums of their weights, those of lists normed to length one.
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
        """From rows of `item_id, unit_group, lists, weight, squared_weight, units`.

        Args:
            frame: What `listed_items.sql` brings back, of one traffic and cut-off.
            total: Lists of each group.
            all_units: Units of each group with a list.
            equal: Units of the smallest traffic.
            catalogue: Items that could have been listed.
        """
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
        """All groups together, one set."""
        return self._mapped(lambda matrix: matrix.sum(axis=-1, keepdims=True))

    def without(self, groups: NDArray[np.int64]) -> Listed:
        """All but each of some groups, a set for each."""
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
        # A pair's cosine is a sum over items, so that sums over items suffice.
        alike: Floats = (self.weight**2 - self.squared).sum(axis=0)
        return np.asarray(1 - alike / (self.total * (self.total - 1)))

    def _rarefied(self) -> Floats:
        """What as many units as the smallest traffic has would have been listed (Hurlbert 1971)."""
        size = max(self.catalogue, len(self.lists))
        sets = zip(self.units.T, self.all_units.astype(np.int64), strict=True)
        return np.array(
            [coverage(units, int(of), min(self.equal, int(of)), size) for units, of in sets]
        )
