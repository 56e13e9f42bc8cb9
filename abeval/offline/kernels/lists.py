"""Ranking metrics over arrays: the same numbers as `queries/offline`, faster.

Each part names the query that defines its numbers; tests compare both.
`offline/kernels/choice.py` calls it with `Rows`, and adds the sums to the model's `UnitValues`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from abeval.offline.candidates.grouping import starts
from abeval.offline.candidates.rows import Rows
from abeval.offline.kernels.ranks import Ranks
from abeval.offline.metrics.definitions import UNCUT, OfflineMetric
from abeval.offline.metrics.formulas import full_ideal, ratio
from abeval.offline.metrics.units import FINE, cut_column
from abeval.stats.arrays import Floats, Integers


class Hits:
    """The relevant items of each request that has any, in the order of their places (`hits.sql`).

    Args:
        rows: All items.
        ranks: Their ranks in requests by the scores of a model.
    """

    def __init__(self, rows: Rows, ranks: Ranks) -> None:
        self.start = starts(ranks.group)
        self.request = ranks.group[self.start[:-1]]
        self.relevant = np.diff(self.start)
        self._place = ranks.place
        self._number = np.arange(1, ranks.group.size + 1) - np.repeat(
            self.start[:-1], self.relevant
        )
        self._grade = rows.grade[ranks.row].astype(np.float64)
        self._is_constant = bool((self._grade == self._grade[:1]).all())
        self._terms: dict[str, tuple[Floats, Integers]] = {}

    def column(self, name: str) -> str:
        """A column of the same values: where every grade is 1, all three gains are equal."""
        is_one = self._is_constant and self._grade[:1].sum() == 1
        return name.replace("_lin", "_bin").replace("_exp", "_bin") if is_one else name

    def term(self, name: str) -> tuple[Floats, Integers]:
        """Each hit's term of a sum in `list_values.sql`, and the cut-off from which it counts.

        Terms are whole numbers, many of them multiples of 1e-12: sums do not depend on the order.
        """
        if name not in self._terms:
            self._terms[name] = self._term(name)
        return self._terms[name]

    def _term(self, name: str) -> tuple[Floats, Integers]:
        is_listed, place = self._place > 0, np.maximum(self._place, 1)
        depth, number = np.where(is_listed, place, UNCUT + 1), self._number
        match name:
            case "hits":
                return np.ones(place.size), depth
            case "places":
                return place.astype(np.float64), depth
            case "precisions":
                return fine(number / place), depth
            case "recalls":
                return number.astype(np.float64), depth
            case "reciprocals":
                return fine(1 / place), depth
            case "first":
                return np.where(number == 1, 1 / place, 0.0), depth
            case "gain":
                return fine(self._grade), depth
            case "early":
                return (place <= np.repeat(self.relevant, self.relevant)).astype(np.float64), depth
        order, kind = name.split("_")
        if order == "dcg":
            return fine(_gain(kind, self._grade) / _discount(place)), depth
        grade = self._grade if order == "ideal" else np.where(is_listed, self._grade, 0.0)
        return fine(_gain(kind, self._best(grade)) / _discount(number)), number

    def _best(self, grade: Floats) -> Floats:
        """The grades of each request, the highest first."""
        # With equal grades any order is best, and hits without a place are last already.
        if self._is_constant:
            return grade
        request = np.repeat(np.arange(self.relevant.size), self.relevant)
        return grade[np.lexsort((-grade, request))]


class Cut:
    """Sums of terms at one cut-off, per request with a relevant item (`list_values.sql`).

    Args:
        hits: The relevant items.
        listed: Scored items of each of these requests.
        k: The cut-off.
    """

    def __init__(self, hits: Hits, listed: Integers, k: int) -> None:
        self.k = k
        self.shown = np.minimum(listed, k)
        self.relevant = hits.relevant.astype(np.float64)
        self.best = np.minimum(self.relevant, k)
        self._hits = hits
        self._sums: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        """Sum of a term over the hits that are inside the cut-off."""
        if name not in self._sums:
            term, depth = self._hits.term(name)
            inside = np.where(depth <= self.k, term, 0.0)
            self._sums[name] = np.add.reduceat(inside, self._hits.start[:-1]) if term.size else term
        return self._sums[name]


def _of_gains(
    name: str, value: Callable[[str, Cut], Floats]
) -> Mapping[str, Callable[[Cut], Floats]]:
    return {name.format(gain): partial(value, gain) for gain in ("bin", "lin", "exp")}


VALUES: Mapping[str, Callable[[Cut], Floats]] = {
    "precision": lambda c: c["hits"] / c.k,
    "recall": lambda c: c["hits"] / c.relevant,
    "recall_cap": lambda c: c["hits"] / c.best,
    "f1": lambda c: 2 * c["hits"] / (c.k + c.relevant),
    "hit": lambda c: np.minimum(c["hits"], 1),
    "map_all": lambda c: c["precisions"] * FINE / c.relevant,
    "map_min": lambda c: c["precisions"] * FINE / c.best,
    "map_hits": lambda c: ratio(c["precisions"] * FINE, c["hits"]),
    "map_k": lambda c: c["precisions"] * FINE / c.k,
    # Σ places of the list from each hit to the cut-off.
    "mar_mean": lambda c: ((c.shown + 1) * c["hits"] - c["places"]) / (c.k * c.relevant),
    "mar_all": lambda c: c["recalls"] / c.relevant**2,
    "mar_min": lambda c: c["recalls"] / (c.relevant * c.best),
    "mrr": lambda c: c["first"],
    "arhr": lambda c: c["reciprocals"] * FINE,
    "cg": lambda c: c["gain"] * FINE,
    **_of_gains("dcg_{}", lambda gain, c: c[f"dcg_{gain}"] * FINE),
    **_of_gains("ndcg_{}", lambda gain, c: c[f"dcg_{gain}"] / c[f"ideal_{gain}"]),
    **_of_gains("ndcg_{}_list", lambda gain, c: ratio(c[f"dcg_{gain}"], c[f"list_{gain}"])),
    "ndcg_bin_k": lambda c: c["dcg_bin"] / (full_ideal(c.k) or math.inf),
    "rprec": lambda c: c["early"] / c.relevant,
}
"""Column of `list_values.sql` (or `r_precision.sql`) → its value per request."""


def list_sums(
    rows: Rows, model: str, ranks: Ranks, metrics: Sequence[OfflineMetric]
) -> dict[str, Floats]:
    """Sums per unit of the ranking metrics of one model (`unit_values.sql`), by column.

    `ranks` has the ranks in requests by the scores of the model.
    """
    hits = Hits(rows, ranks)
    unit, listed = rows.unit[hits.request], rows.listed[model][hits.request]
    cuts = {k: Cut(hits, listed, k) for k in {m.cutoff for m in metrics}}
    known: dict[tuple[str, int], Floats] = {}
    sums: dict[str, Floats] = {}
    for metric in metrics:
        column, k = hits.column(metric.definition.numerator), metric.cutoff
        if (column, k) not in known:
            values = fine(VALUES[column](cuts[k]))
            known[column, k] = FINE * np.bincount(unit, values, rows.units).astype(np.float64)
        sums[cut_column(metric.definition.numerator, k)] = known[column, k]
    return sums


def _gain(kind: str, grade: Floats) -> Floats:
    match kind:
        case "bin":
            return np.sign(grade)
        case "lin":
            return grade
        case _:
            # Exponential gains stop at 2^20; metrics of larger relevance are refused.
            return 2.0 ** np.minimum(grade, 20) - 1


def _discount(place: Integers) -> Floats:
    discounts: Floats = np.log2(1 + np.arange(place.max(initial=0) + 1.0))
    return discounts[place]


def fine(term: Floats) -> Floats:
    """Round to whole multiples of 1e-12, whose sums do not depend on the order."""
    return np.rint(term / FINE)
