"""Ranking metrics over arrays: the same numbers as `queries/offline`, faster.

Each part names the query that defines its numbers; tests compare both.
`offline/kernels/choice.py` calls it with `Rows`, and adds the sums to the model's `UnitValues`.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from abeval.offline.kernels import FINE, Ranks, cut_column, full_ideal, ratio
from abeval.offline.metrics import UNCUT, OfflineMetric
from abeval.offline.rows import Rows, starts
from abeval.stats.records import Floats, Integers
from abeval.threads import in_threads


class Hits:
    """The relevant items of each request that has any, in the order of their places (`hits.sql`).

    Args:
        rows: All items.
        ranks: Their ranks in requests by the scores of a model.
    """

    def __init__(self, rows: Rows, ranks: Ranks) -> None:
        start = starts(ranks.group)
        self.request = ranks.group[start[:-1]]
        self.relevant = np.diff(start)
        self.place = np.where(ranks.place > 0, ranks.place, UNCUT + 1)
        self.list = np.repeat(np.arange(self.relevant.size), self.relevant)
        self.number = np.arange(1, ranks.group.size + 1) - start[self.list]
        self._grade = rows.grade[ranks.row].astype(np.float64)
        self._terms: dict[str, Floats] = {}

    def term(self, name: str) -> Floats:
        """Each hit's term of a sum in `list_values.sql`.

        Terms are whole numbers, many of them multiples of 1e-12: sums do not depend on the order.
        """
        if name not in self._terms:
            self._terms[name] = self._term(name)
        return self._terms[name]

    def _term(self, name: str) -> Floats:
        place, number = self.place, self.number
        match name:
            case "hits":
                return np.ones(place.size)
            case "places":
                return place.astype(np.float64)
            case "precisions":
                return fine(number / place)
            case "recalls":
                return number.astype(np.float64)
            case "reciprocals":
                return fine(1 / place)
            case "first":
                return np.where(number == 1, 1 / place, 0.0)
            case "gain":
                return fine(self._grade)
            case "early":
                return (place <= self.relevant[self.list]).astype(np.float64)
        (order, kind), is_listed = name.split("_"), place <= UNCUT
        if order == "dcg":
            return fine(_gain(kind, self._grade) / _discount(np.where(is_listed, place, 1)))
        grade = self._grade if order == "ideal" else np.where(is_listed, self._grade, 0.0)
        return fine(_gain(kind, self._best(grade)) / _discount(number))

    def _best(self, grade: Floats) -> Floats:
        """The grades of each request, the highest first."""
        # With equal grades any order is best, and hits without a place are last already.
        is_constant = self._grade.min() == self._grade.max()
        return grade if is_constant else grade[np.lexsort((-grade, self.list))]


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
        self._inside = {
            ordered: np.flatnonzero((hits.number if ordered else hits.place) <= k)
            for ordered in (False, True)
        }
        self._sums: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        """Sum of a term over the hits that are inside the cut-off."""
        if name not in self._sums:
            # The ideal orders have their own places, which the hits' numbers are.
            inside = self._inside[name.startswith(("ideal", "list"))]
            terms = self._hits.term(name)[inside]
            sums = np.bincount(self._hits.list[inside], terms, self.relevant.size)
            # Of nothing, the sums are whole numbers.
            self._sums[name] = sums.astype(np.float64, copy=False)
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
    # Where every grade is 1, all three gains are equal, and computed once.
    is_one = rows.is_binary and rows.grades.max(initial=0) == 1
    column = {
        m: re.sub("_(lin|exp)", "_bin", m.definition.numerator)
        if is_one
        else m.definition.numerator
        for m in metrics
    }
    wanted = {(name, m.cutoff) for m, name in column.items()}
    parts = [*in_threads(lambda part: _values(rows, model, part, wanted), ranks.parts())]
    unit = np.concatenate([np.zeros(0, np.int64), *(of.unit for of in parts)])
    sums: dict[tuple[str, int], Floats] = {}
    for key in wanted:
        values = np.concatenate([np.zeros(0), *(of.values[key] for of in parts)])
        sums[key] = FINE * np.bincount(unit, values, rows.units).astype(np.float64, copy=False)
    return {
        cut_column(m.definition.numerator, m.cutoff): sums[column[m], m.cutoff] for m in metrics
    }


class _Values(NamedTuple):
    """Values of requests with a relevant item, in multiples of 1e-12, and their units."""

    unit: Integers
    values: Mapping[tuple[str, int], Floats]


def _values(rows: Rows, model: str, ranks: Ranks, wanted: Collection[tuple[str, int]]) -> _Values:
    hits = Hits(rows, ranks)
    listed = rows.listed[model][hits.request]
    cuts = {k: Cut(hits, listed, k) for k in {k for _, k in wanted}}
    values = {(name, k): fine(VALUES[name](cuts[k])) for name, k in wanted}
    return _Values(rows.unit[hits.request], values)


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
    discounts: Floats = np.log2(1 + np.arange(place.max() + 1.0))
    return discounts[place]


def fine(term: Floats) -> Floats:
    """Round to whole multiples of 1e-12, whose sums do not depend on the order."""
    return np.rint(term / FINE)
