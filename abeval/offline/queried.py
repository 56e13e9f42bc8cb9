"""Sum metrics per unit by queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import query
from abeval.offline.kernels import SCALE, UnitValues, full_ideal, graded_orders
from abeval.offline.metrics import GRADED, Family, OfflineMetric
from abeval.stats.exposure import coverage, entropy_of_sets, gini_of_sets
from abeval.stats.records import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd


def write_cutoffs(engine: Engine, ks: Sequence[int]) -> None:
    """Make `cutoffs` (`k`, `full_ideal`: DCG of k relevant items, in multiples of 1e-12)."""
    ideals = ("null" if ideal is None else repr(ideal) for ideal in map(full_ideal, ks))
    pairs = zip(ks, ideals, strict=True)
    rows = ", ".join(f"(cast({k} as bigint), cast({ideal} as double))" for k, ideal in pairs)
    engine.view("cutoffs", f"select * from (values {rows}) as v (k, full_ideal)")


def add_request_values(engine: Engine, sql: str, ks: Sequence[int], values: UnitValues) -> None:
    """Add the sums per unit of values per request; `sql` has `unit_id, k` and values `v_…`."""
    engine.view("wanted_values", sql)
    values.add_cuts(engine.frame(query("offline/unit_values")), ks)


_PAIRS_A_ROW = 6
"""With more pairs of a relevant item and another of its request per row, sorting is faster."""


def add_ranking(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    """Add each metric's sums per unit, read from the relations `model_items` and `requests`."""
    wanted = [m for m in metrics if m.definition.family in ("list", "r_precision", "tied")]
    if not wanted:
        return
    engine.table("places", query(f"offline/{_places(engine)}"))
    engine.view("hits", query("offline/hits"))
    ks = sorted({m.cutoff for m in wanted})
    write_cutoffs(engine, ks)
    engine.view("list_values", query("offline/list_values"))
    _add(engine, "list_values", _of(wanted, "list"), values)
    _add(engine, f"({query('offline/r_precision')})", _of(wanted, "r_precision"), values)
    if tied := _of(wanted, "tied"):
        engine.table("discounts", _discounts(engine, ks))
        _add(engine, f"({query('offline/tied_ndcg')})", tied, values)


def _of(metrics: Sequence[OfflineMetric], family: Family) -> list[OfflineMetric]:
    return [m for m in metrics if m.definition.family == family]


def _places(engine: Engine) -> str:
    """The faster query: count the items above each relevant item, or sort every list."""
    ((pairs, rows),) = engine.rows(
        "select cast(sum(items * relevant) as bigint), cast(sum(items) as bigint) from requests"
    )
    few = whole(pairs) <= _PAIRS_A_ROW * whole(rows)
    return "places_of_few" if few else "places"


def _add(engine: Engine, source: str, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    if not metrics:
        return
    ks = sorted({m.cutoff for m in metrics})
    columns = ", ".join(dict.fromkeys(f"v_{m.definition.numerator}" for m in metrics))
    k = f"{ks[0]} as k" if metrics[0].definition.family == "r_precision" else "k"
    add_request_values(engine, f"select unit_id, {k}, {columns} from {source}", ks, values)


def _discounts(engine: Engine, ks: Sequence[int]) -> str:
    """SQL of the running sum of discounts, up to the last place of any list or cut-off."""
    last = min(whole_number(engine, "select max(items) from requests"), max(ks))
    totals = accumulate((1 / math.log2(1 + i) for i in range(1, last + 1)), initial=0.0)
    rows = ", ".join(f"(cast({i} as bigint), {total!r})" for i, total in enumerate(totals))
    return f"select * from (values {rows}) as v (place, total)"


_PAIRS_OF_ROWS = 12
"""With more pairs per row than this, rank sums are faster than pair by pair."""

_POINT = ("predicted_positive", "true_positive", "rows", "clicks")


def add_pairs(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    """Add the sums of GAUC and FCP per unit, read from `scored_rows`."""
    wanted = {m.definition.numerator for m in metrics if m.definition.family == "pairs"}
    if not wanted:
        return
    engine.table("unit_pairs", query(f"offline/{_pairs(engine)}"))
    frame = engine.frame(query("offline/pair_values"))
    names = [str(c) for c in frame.columns if str(c) not in ("unit_id", "clicks")]
    values.add(frame, {c: c for c in names if not c.startswith("v_")})
    values.add(frame, {"clicks": "gauc_clicks"})
    values.add(frame, {c: c.removeprefix("v_") for c in names if c.startswith("v_")}, SCALE)
    values.columns["won_pairs"] = values["won_halves"] / 2
    if wanted & GRADED:
        _add_graded(engine, values)


def _pairs(engine: Engine) -> str:
    ((pairs, rows),) = engine.rows(
        "select cast(sum(p * (n - p)) as double), cast(sum(n) as double) from "
        "(select count(*) as n, sum(click) as p from scored_rows group by unit_id) as u"
    )
    few = float(pairs or 0) <= _PAIRS_OF_ROWS * float(rows or 0)
    return "pairs_of_few" if few else "pairs"


def _add_graded(engine: Engine, values: UnitValues) -> None:
    """Add concordant and discordant pairs of every two levels of relevance."""
    levels = whole_number(
        engine,
        "select max(levels) from "
        "(select count(distinct grade) as levels from scored_rows group by unit_id) as u",
    )
    digits = max(math.ceil(math.log2(max(levels, 2))), 1)
    halves = ", ".join(f"({2**i})" for i in range(digits))
    engine.view("bits", f"select * from (values {halves}) as v (half)")
    frame = engine.frame(query("offline/graded_pairs"))
    values.add(frame, {"pairs": "graded", "won_halves": "graded_halves", "tied": "graded_tied"})
    won, tied, pairs = (values[c] for c in ("graded_halves", "graded_tied", "graded"))
    values.columns.update(graded_orders(won, tied, pairs))


def add_auc(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues, by: str) -> None:
    """Add each unit's pseudo-value of the AUC over all rows, as `auc:BY` and `units:BY`.

    By `traffic`, the AUC is over the rows of each variant; by `pooled`, over all rows.
    """
    if not any(m.definition.family == "auc" for m in metrics):
        return
    variant = "traffic" if by == "traffic" else "'pooled'"
    # Imported here, because an evaluation without AUC needs no experiment and no logs.
    from abeval.logs.views import show_scored

    show_scored(engine, f"select {variant} as variant, unit_id, score, click from traffic_rows")
    frame = engine.frame(query("units/auc"))
    values.add(frame, {"c_auc": f"auc:{by}"}, SCALE)
    values.add(frame, {"c_scored_units": f"units:{by}"})


def add_points(
    engine: Engine,
    metrics: Sequence[OfflineMetric],
    values: UnitValues,
    threshold: float | None,
) -> None:
    """Add the sums of log loss, calibration and errors per unit, read from `scored_rows`."""
    if not any(m.definition.family == "point" for m in metrics):
        return
    cut = "cast(null as double)" if threshold is None else f"cast({threshold!r} as double)"
    engine.view("threshold", f"select {cut} as threshold")
    frame = engine.frame(query("offline/point_values"))
    values.add(frame, {name: f"point_{name}" for name in _POINT})
    sums = [str(c) for c in frame.columns if str(c).startswith("v_")]
    values.add(frame, {c: f"point_{c.removeprefix('v_')}" for c in sums}, SCALE)
    values.columns["point_log_likelihood"] = -values["point_log_loss"]
    yes, hit = values["point_predicted_positive"], values["point_true_positive"]
    values.columns["point_twice_true_positive"] = 2 * hit
    values.columns["point_both_positive"] = yes + values["point_clicks"]


def calibration(engine: Engine, bins: int) -> pd.DataFrame:
    """`traffic, kind, bin, unit_group, rows, clicks, predicted`: the curve, binned both ways."""
    engine.view("bin_count", f"select cast({bins} as bigint) as bins")
    frame = engine.frame(query("offline/calibration"))
    frame["predicted"] = frame["predicted"].astype(float) * SCALE
    return frame


@dataclass(frozen=True)
class Bins:
    """A calibration curve by bin and group of units.

    Attributes:
        gap: Sums of score − click, shape (bins, groups).
        rows: Rows, shape (groups,).
    """

    gap: Floats
    rows: Floats

    @classmethod
    def of(cls, curve: pd.DataFrame, groups: int) -> Bins:
        """From the curve of one traffic and kind of bin."""
        number, group = (curve[c].to_numpy(dtype=np.int64) for c in ("bin", "unit_group"))
        gap = (curve["predicted"] - curve["clicks"]).to_numpy(dtype=np.float64)
        size = int(number.max()) + 1 if number.size else 0
        cell = number * groups + group
        flat = np.bincount(cell, weights=gap, minlength=size * groups).astype(np.float64)
        counted = curve["rows"].to_numpy(dtype=np.float64)
        rows = np.bincount(group, weights=counted, minlength=groups).astype(np.float64)
        return cls(flat.reshape(size, groups), rows)

    def error(self) -> float:
        """Σ rows·|mean score − click rate| / Σ rows over the bins.

        Example:
            >>> Bins(np.array([[0.5], [-0.5]]), np.array([4.0])).error()
            0.25
        """
        return float(np.abs(self.gap.sum(axis=1)).sum() / self.rows.sum())

    def errors_without(self, groups: Integers) -> Floats:
        """The error without each of some groups."""
        gap = np.abs(self.gap.sum(axis=1)[:, None] - self.gap[:, groups]).sum(axis=0)
        return np.asarray(gap / (self.rows.sum() - self.rows[groups]))

    def bias(self, groups: Integers) -> float:
        """Expected excess of the error, because noise alone counts as a gap.

        The mean of a folded normal less the gap, over bins (Leone, Nelson and Nottingham 1961).
        """
        # Imported here, because the import takes longer than most metrics.
        from scipy.special import ndtr

        gap = self.gap.sum(axis=1)
        spread = np.sqrt(self.gap[:, groups].var(axis=1, ddof=1) * groups.size)
        z = np.divide(gap, spread, out=np.full(gap.size, np.inf), where=spread > 0)
        noise = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
        folded = noise + gap * (1 - 2 * ndtr(-z))
        excess = np.where(spread > 0, folded - np.abs(gap), 0.0)
        return float(excess.sum() / self.rows.sum())


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
