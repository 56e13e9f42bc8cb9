"""Beyond accuracy: novelty, serendipity, diversity per list; coverage and evenness per traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from abeval.engines.protocol import Engine
from abeval.offline.definitions import OfflineMetric
from abeval.offline.units import FINE, Floats, UnitValues, cut_column, value_columns
from abeval.queries import query

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
        `traffic, k, item_id, lists, weight, squared_weight`: who stands in how many lists; None
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
    if "ild" in numerators:
        _add(engine, "category_values", ks, values)
    return engine.frame(query("offline/listed_items"))


def _add(engine: Engine, source: str, ks: Sequence[int], values: UnitValues) -> None:
    engine.view("wanted_values", query(f"offline/{source}"))
    frame = engine.frame(query("offline/unit_values"))
    for k in ks:
        names = {name: cut_column(name.removeprefix("v_"), k) for name in value_columns(frame)}
        values.add(frame[frame["k"] == k], names, FINE)


def of_catalogue(name: str, items: pd.DataFrame, catalogue: int, lists: int) -> float | None:
    """Coverage, evenness or personalisation of a model's lists on one traffic.

    Args:
        name: The metric's numerator: `coverage`, `gini`, `gini_listed`, `entropy` or
            `personalisation`.
        items: `item_id, lists, weight, squared_weight` of each listed item.
        catalogue: Items that could have been listed.
        lists: How many lists there are.

    Returns:
        The value, None where it has none.

    Example:
        >>> import pandas as pd
        >>> items = pd.DataFrame({"lists": [2, 1, 2, 1], "weight": 1.0, "squared_weight": 1.0})
        >>> of_catalogue("coverage", items, 5, 3)
        0.8
    """
    counts = np.sort(items["lists"].to_numpy(dtype=np.float64))
    if not counts.size:
        return None
    match name:
        case "coverage":
            return counts.size / catalogue
        case "gini":
            return _gini(np.concatenate([np.zeros(max(catalogue - counts.size, 0)), counts]))
        case "gini_listed":
            return _gini(counts)
        case "entropy":
            share = counts / counts.sum()
            return float(-(share * np.log2(share)).sum())
    return _personalisation(items, lists)


def _gini(counts: Floats) -> float:
    """Σ (2i − n − 1) x_i / (n Σ x), x ascending: 0 where all are equal."""
    n = counts.size
    return float(((2 * np.arange(1, n + 1) - n - 1) * counts).sum() / (n * counts.sum()))


def _personalisation(items: pd.DataFrame, lists: int) -> float | None:
    """1 − the mean cosine of two lists; a pair's cosine is a sum over items, so items suffice."""
    if lists < 2:
        return None
    weight, squared = (items[c].to_numpy(dtype=np.float64) for c in ("weight", "squared_weight"))
    alike = float((weight**2 - squared).sum()) / 2
    return 1 - alike / (lists * (lists - 1) / 2)
