"""Sum metrics per unit by queries, for one model after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import query
from abeval.offline.kernels import FINE, SCALE, Key, full_ideal
from abeval.offline.metrics import GRADED, HISTORY, UNCUT, Definition, Family, OfflineMetric
from abeval.stats.records import Floats

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_SCORE = 1e6
"""Larger scores are no predictions, and their errors would overflow the sums."""


@dataclass
class ModelSums:
    """The sums of one model; columns are added in place.

    Attributes:
        units: The ids of the units of the replay, ascending.
        low: Its smallest score.
        high: Its largest score.
        longest: Items of its longest list with a relevant item.
        columns: Sums per unit, shape (units,).
        curve: The calibration curve by traffic and group of units; None unless a metric needs it.
        listed: Lists that hold each item, by traffic, cut-off and group; None unless needed.
    """

    units: NDArray[np.generic]
    low: float
    high: float
    longest: int
    columns: dict[Key, Floats] = field(default_factory=dict)
    curve: pd.DataFrame | None = None
    listed: pd.DataFrame | None = None

    @property
    def probabilities(self) -> bool:
        """Return whether every score lies in [0, 1]."""
        return self.low >= 0 and self.high <= 1

    def column(self, family: str, name: str, k: int = UNCUT) -> Floats:
        """Return the sums of each unit.

        Raises:
            KeyError: The run has no such sums.
        """
        return self.columns[family, name, k]

    def add(self, family: str, frame: pd.DataFrame, scale: float = SCALE, k: int = UNCUT) -> None:
        """Add the columns of a frame with one row per `unit_id`.

        A unit without a row has zero; rows of other units are ignored. Columns `v_…` are whole
        multiples of `scale`.
        """
        import pandas as pd

        place = pd.Index(self.units).get_indexer(pd.Index(frame["unit_id"]))
        known = place >= 0
        for name in (str(column) for column in frame.columns if column not in ("unit_id", "k")):
            values = np.zeros(len(self.units))
            unit = scale if name.startswith("v_") else 1.0
            values[place[known]] = frame[name].to_numpy(dtype=np.float64)[known] * unit
            self.columns[family, name.removeprefix("v_"), k] = values

    def add_cuts(self, engine: Engine, family: Family, sql: str, ks: Sequence[int]) -> None:
        """Add the sums of values per request; `sql` has `unit_id, k` and values `v_…`."""
        engine.view("wanted_values", sql)
        frame = engine.frame(query("offline/unit_values"))
        for k in ks:
            self.add(family, frame[frame["k"] == k], FINE, k)


def add_queried(
    engine: Engine,
    metrics: Sequence[OfflineMetric],
    sums: ModelSums,
    threshold: float | None,
    bins: int,
) -> None:
    """Add what the metrics sum of `model_items`, `requests`, `scored_rows` and `traffic_rows`."""
    of: dict[Family, list[OfflineMetric]] = {}
    for metric in metrics:
        of.setdefault(metric.definition.family, []).append(metric)
    if lists := [*of.get("list", ()), *of.get("tied", ())]:
        _add_lists(engine, lists, sums)
    if "pairs" in of:
        engine.table("unit_pairs", query("offline/pairs"))
        sums.add("pairs", engine.frame(query("offline/pair_values")))
        if any(metric.definition.above in GRADED for metric in of["pairs"]):
            _add_graded(engine, sums)
    if "auc" in of:
        _add_auc(engine, sums)
    if "point" in of and max(abs(sums.low), abs(sums.high)) <= _LARGEST_SCORE:
        cut = "cast(null as double)" if threshold is None else f"cast({threshold!r} as double)"
        engine.view("threshold", f"select {cut} as threshold")
        sums.add("point", engine.frame(query("offline/point_values")))
    if "bins" in of and sums.probabilities:
        engine.view("bin_count", f"select cast({bins} as bigint) as bins")
        sums.curve = engine.frame(query("offline/calibration"))
        sums.curve["predicted"] = sums.curve["predicted"].astype(float) * SCALE
    if held := [*of.get("beyond", ()), *of.get("catalogue", ())]:
        _add_held(engine, held, sums)


def _add_lists(engine: Engine, metrics: Sequence[OfflineMetric], sums: ModelSums) -> None:
    """Add the sums of ranking metrics: places → columns per request → values → sums."""
    engine.table("places", query("offline/places"))
    engine.view("hits", query("offline/hits"))
    ks = _write_cutoffs(engine, metrics)
    engine.view("list_values", query("offline/list_values"))
    if values := dict.fromkeys(value_sql(m.definition) for m in metrics if m.definition.above):
        sql = f"select unit_id, k, {', '.join(values)} from list_values"
        sums.add_cuts(engine, "list", sql, ks)
    if any(metric.definition.family == "tied" for metric in metrics):
        last = min(whole_number(engine, "select max(items) from requests"), max(ks))
        totals = accumulate((1 / math.log2(1 + i) for i in range(1, last + 1)), initial=0.0)
        rows = ", ".join(f"(cast({i} as bigint), {total!r})" for i, total in enumerate(totals))
        engine.table("discounts", f"select * from (values {rows}) as v (place, total)")
        sums.add_cuts(engine, "tied", query("offline/tied_ndcg"), ks)


def value_sql(definition: Definition) -> str:
    """Return SQL of a metric's value, of columns of `list_values`; 0 where it is divided by 0.

    Example:
        >>> from abeval.offline.metrics import DEFINITIONS
        >>> value_sql(DEFINITIONS["map", "min"])
        'coalesce(precisions / nullif(1e12 * best, 0), 0) as v_map_min'
    """
    value = definition.above
    if definition.below:
        below = " * ".join(definition.below.replace("fine", "1e12").split())
        value = f"coalesce({value} / nullif({below}, 0), 0)"
    return f"{value} as v_{definition.column}"


def _write_cutoffs(engine: Engine, metrics: Sequence[OfflineMetric]) -> list[int]:
    """Make `cutoffs` (`k`, `full_ideal`: DCG of k relevant items in 1e-12), and return each k."""
    ks = sorted({metric.cutoff for metric in metrics})
    ideals = ("null" if ideal is None else repr(ideal) for ideal in map(full_ideal, ks))
    pairs = zip(ks, ideals, strict=True)
    rows = ", ".join(f"(cast({k} as bigint), cast({ideal} as double))" for k, ideal in pairs)
    engine.view("cutoffs", f"select * from (values {rows}) as v (k, full_ideal)")
    return ks


def _add_graded(engine: Engine, sums: ModelSums) -> None:
    """Add concordant and discordant pairs of every two levels of relevance."""
    levels = whole_number(
        engine,
        "select max(levels) from "
        "(select count(distinct grade) as levels from scored_rows group by unit_id) as u",
    )
    digits = max(math.ceil(math.log2(max(levels, 2))), 1)
    halves = ", ".join(f"({2**i})" for i in range(digits))
    engine.view("bits", f"select * from (values {halves}) as v (half)")
    sums.add("pairs", engine.frame(query("offline/graded_pairs")))


def _add_auc(engine: Engine, sums: ModelSums) -> None:
    """Add each unit's pseudo-value of the AUC over the rows of its variant, and over all rows."""
    # Imported here, because an evaluation without AUC needs no experiment and no logs.
    from abeval.logs.views import show_scored

    for by, variant in (("traffic", "traffic"), ("pooled", "'pooled'")):
        show_scored(engine, f"select {variant} as variant, unit_id, score, click from traffic_rows")
        frame = engine.frame(query("units/auc"))[["unit_id", "c_auc", "c_scored_units"]]
        sums.add(f"auc_{by}", frame.rename(columns={"c_auc": "v_auc", "c_scored_units": "units"}))


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


def _add_held(engine: Engine, metrics: Sequence[OfflineMetric], sums: ModelSums) -> None:
    """Add novelty, serendipity and diversity of lists, and in how many lists each item is."""
    ks, above = _write_cutoffs(engine, metrics), {m.definition.above for m in metrics}
    engine.view("deepest", f"select {max(ks)} as k")
    engine.table("top_items", query("offline/top_items"))
    queries: Mapping[str, frozenset[str]] = {
        "beyond_values": HISTORY,
        "vector_values": frozenset({"ild_vectors"}),
        "category_values": frozenset({"ild"}),
    }
    for name in (name for name, values in queries.items() if values & above):
        sums.add_cuts(engine, "beyond", query(f"offline/{name}"), ks)
    sums.listed = engine.frame(query("offline/listed_items"))
