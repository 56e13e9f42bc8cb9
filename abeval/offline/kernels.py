"""The ranking metrics and GAUC over arrays: the same numbers as `queries/offline`, sooner.

The queries are the definitions. Each function here says which of them it stands for; the tests
hold the two against each other.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abeval.offline.definitions import OfflineMetric
from abeval.offline.grouping import Block, Groups, Whole
from abeval.offline.ranking import full_ideal
from abeval.offline.result import ModelCoverage
from abeval.offline.rows import Rows, listed_of
from abeval.offline.scores import GRADED, graded_orders
from abeval.offline.units import FINE, SCALE, Floats, UnitValues, cut_column

_PAIRS_A_ROW = 16
"""Above this many comparisons a row, sorting is faster."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The relevant items of each request, in the order of their places (`hits.sql`).

    Attributes:
        request: Its number.
        place: By score, 0 where the model has no score for it.
        grade: Relevance.
    """

    request: Whole
    place: Whole
    grade: Floats
    _terms: dict[str, Floats] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Groups:
        """The hits of each request that has any."""
        return Groups.of(self.request)

    @cached_property
    def number(self) -> Whole:
        """1 for the first hit of its request, and so on."""
        start, size = self.groups.start, self.groups.size
        return np.arange(1, start[-1] + 1) - np.repeat(start[:-1], size)

    @cached_property
    def ideal(self) -> Whole:
        """The place in the best order of all relevant items."""
        return self._best(self.grade)

    @cached_property
    def list_ideal(self) -> Whole:
        """The place in the best order of the list, where an item without a score gains nothing."""
        return self._best(np.where(self.place > 0, self.grade, 0.0))

    def _best(self, gain: Floats) -> Whole:
        # Of equal gains any order is best, and hits without a place come last already.
        if self._is_constant:
            return self.number
        place = np.empty_like(self.number)
        place[np.lexsort((-gain, self.request))] = self.number
        return place

    @cached_property
    def _is_constant(self) -> bool:
        return not self.grade.size or bool(self.grade.min() == self.grade.max())

    def gain(self, kind: str) -> str:
        """The plainest gain that is the same here: all three are, where every grade is 1."""
        plain = self._is_constant and self.grade.size > 0 and self.grade[0] == 1
        return "bin" if plain else kind

    def term(self, name: str) -> Floats:
        """What each hit adds to a sum of `list_values.sql`, worked out once."""
        if name not in self._terms:
            self._terms[name] = self._made(name)
        return self._terms[name]

    def _made(self, name: str) -> Floats:
        places = np.maximum(self.place, 1)
        match name:
            case "hits":
                return np.ones(self.place.size)
            case "precisions":
                return _fine(self.number / places)
            case "recalls":
                return self.number.astype(np.float64)
            case "reciprocals":
                return _fine(1 / places)
            case "first":
                return np.where(self.number == 1, 1 / places, 0.0)
            case "gain":
                return _fine(self.grade)
        order, kind = name.split("_")
        place = {"dcg": places, "ideal": self.ideal, "list": self.list_ideal}[order]
        return _fine(self._gains(kind) / np.log2(1 + place))

    def _gains(self, kind: str) -> Floats:
        if kind == "bin":
            return np.ones(self.grade.size)
        # Exponential gains stop at 2^20: where relevance is larger, they are refused.
        return self.grade if kind == "lin" else 2.0 ** np.minimum(self.grade, 20) - 1


def hits_of(rows: Rows, model: str) -> Hits:
    """The places of the relevant items (`places.sql`)."""
    score = rows.scores[model]
    found = [_block_hits(block, rows, score) for block in rows.requests.blocks()]
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    request, place, grade = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
    # Hits without a place come last; one key of both sorts faster than two.
    last = longest(rows) + 1
    key = request * (last + 1) + np.where(place > 0, place, last)
    if rows.is_binary:
        key.sort()
        request, place = np.divmod(key, last + 1)
        return Hits(request, np.where(place < last, place, 0), grade)
    order = np.argsort(key)
    return Hits(request[order], place[order], grade[order])


def _block_hits(block: Block, rows: Rows, score: Floats) -> tuple[Whole, Whole, Floats]:
    grades = block.matrix(rows.grade)
    row, column = np.nonzero(grades > 0)
    scores, ties = block.matrix(score), block.matrix(rows.tie)
    if row.size * block.length <= _PAIRS_A_ROW * grades.size:
        place = _counted(scores, ties, row, column)
    else:
        place = _sorted_places(scores, ties)[row, column]
    place[np.isnan(scores[row, column])] = 0
    return block.groups[row], place, grades[row, column]


def _counted(scores: Floats, ties: Whole, row: Whole, column: Whole) -> Whole:
    """One more than what stands above, counted."""
    own = scores[row, column][:, None]
    others = scores[row]
    above: Whole = np.count_nonzero(others > own, axis=1)
    equal = others == own
    # Every scored item equals itself; ties are looked at where there are others.
    if np.count_nonzero(equal) > np.count_nonzero(~np.isnan(own)):
        higher = ties[row] > ties[row, column][:, None]
        above += np.count_nonzero(equal & higher, axis=1)
    return above + 1


def _sorted_places(scores: Floats, ties: Whole) -> Whole:
    """The place of every item; those without a score come last."""
    by_tie = np.argsort(-ties, axis=1, kind="stable")
    by_score = np.argsort(-np.take_along_axis(scores, by_tie, 1), axis=1, kind="stable")
    order = np.take_along_axis(by_tie, by_score, 1)
    places = np.empty(order.shape, dtype=np.int64)
    np.put_along_axis(places, order, np.arange(1, order.shape[1] + 1)[None, :], 1)
    return places


class Cut:
    """Sums of terms at one cut-off, per request with a relevant item (`list_values.sql`).

    Terms are whole multiples of 1e-12, as they are there.

    Args:
        hits: The relevant items.
        listed: Scored items of each request.
        k: The cut-off.
    """

    def __init__(self, hits: Hits, listed: Whole, k: int) -> None:
        self._hits = hits
        self._listed = listed
        self._sums: dict[str, Floats] = {}
        self.k = k
        self.relevant = hits.groups.size.astype(np.float64)

    def __getitem__(self, name: str) -> Floats:
        """Σ of a term over the hits that are inside the cut-off."""
        if name not in self._sums:
            self._sums[name] = self._sum(self._hits.term(name), self._inside(name))
        return self._sums[name]

    def dcg(self, kind: str) -> Floats:
        """Σ gain / log2(1 + place)."""
        return self[f"dcg_{self._hits.gain(kind)}"]

    def ideal(self, kind: str) -> Floats:
        """The same in the best order of all relevant items."""
        return self[f"ideal_{self._hits.gain(kind)}"]

    def list_ideal(self, kind: str) -> Floats:
        """The same in the best order of the list."""
        return self[f"list_{self._hits.gain(kind)}"]

    @cached_property
    def best(self) -> Floats:
        """The most hits there could be."""
        return np.minimum(self.relevant, self.k)

    @cached_property
    def steps(self) -> Floats:
        """Σ places of the list from each hit to the cut-off."""
        shown = np.minimum(self._listed[self._hits.request], self.k)
        return self._sum(shown - self._hits.place + 1, self._inside("hits"))

    @cached_property
    def early(self) -> Floats:
        """Relevant items in as many places as there are relevant items."""
        hits = self._hits
        relevant = np.repeat(hits.groups.size, hits.groups.size)
        return self._sum(hits.term("hits"), (hits.place > 0) & (hits.place <= relevant))

    def _inside(self, name: str) -> NDArray[np.bool_]:
        hits = self._hits
        if name.startswith("ideal"):
            return hits.ideal <= self.k
        place = hits.list_ideal if name.startswith("list") else hits.place
        return (hits.place > 0) & (place <= self.k)

    def _sum(self, term: Floats | Whole, inside: NDArray[np.bool_]) -> Floats:
        if not term.size:
            return np.zeros(0)
        kept = np.multiply(term, inside, dtype=np.float64)
        return np.asarray(np.add.reduceat(kept, self._hits.groups.start[:-1]))


def _fine(term: Floats) -> Floats:
    return np.rint(term / FINE)


def _over(above: Floats, below: Floats | float) -> Floats:
    """Their ratio, 0 where there is nothing below."""
    return np.divide(above, below, out=np.zeros_like(above), where=np.asarray(below) > 0)


VALUES: Mapping[str, Callable[[Cut], Floats]] = {
    "precision": lambda c: c["hits"] / c.k,
    "recall": lambda c: c["hits"] / c.relevant,
    "recall_cap": lambda c: c["hits"] / c.best,
    "f1": lambda c: 2 * c["hits"] / (c.k + c.relevant),
    "hit": lambda c: np.minimum(c["hits"], 1),
    "map_all": lambda c: c["precisions"] * FINE / c.relevant,
    "map_min": lambda c: c["precisions"] * FINE / c.best,
    "map_hits": lambda c: _over(c["precisions"] * FINE, c["hits"]),
    "map_k": lambda c: c["precisions"] * FINE / c.k,
    "mar_mean": lambda c: c.steps / (c.k * c.relevant),
    "mar_all": lambda c: c["recalls"] / c.relevant**2,
    "mar_min": lambda c: c["recalls"] / (c.relevant * c.best),
    "mrr": lambda c: c["first"],
    "arhr": lambda c: c["reciprocals"] * FINE,
    "cg": lambda c: c["gain"] * FINE,
    "dcg_bin": lambda c: c.dcg("bin") * FINE,
    "dcg_lin": lambda c: c.dcg("lin") * FINE,
    "dcg_exp": lambda c: c.dcg("exp") * FINE,
    "ndcg_bin": lambda c: c.dcg("bin") / c.ideal("bin"),
    "ndcg_lin": lambda c: c.dcg("lin") / c.ideal("lin"),
    "ndcg_exp": lambda c: c.dcg("exp") / c.ideal("exp"),
    "ndcg_bin_list": lambda c: _over(c.dcg("bin"), c.list_ideal("bin")),
    "ndcg_lin_list": lambda c: _over(c.dcg("lin"), c.list_ideal("lin")),
    "ndcg_exp_list": lambda c: _over(c.dcg("exp"), c.list_ideal("exp")),
    "ndcg_bin_k": lambda c: c.dcg("bin") / (full_ideal(c.k) or math.inf),
    "rprec": lambda c: c.early / c.relevant,
}
"""Column of `list_values.sql` (or `r_precision.sql`) → its value per request."""


def covers(metric: OfflineMetric, rows: Rows) -> bool:
    """Whether a metric has a kernel; FCP has one where relevance is of two levels."""
    family, column = metric.definition.family, metric.definition.numerator
    if family == "pairs":
        return column not in GRADED or rows.is_binary
    return family in ("list", "r_precision")


def coverage(rows: Rows) -> Iterator[ModelCoverage]:
    """How much of the rows each model scores (`coverage.sql`)."""
    for model in sorted(rows.scores):
        listed = listed_of(rows.requests, rows.scores[model])
        scored = int((listed > 0).sum())
        total = int(rows.requests.start[-1])
        units = [np.unique(rows.unit[mask]).size for mask in (listed >= 0, listed > 0)]
        unscored = total - int(listed.sum())
        yield ModelCoverage(model, len(rows.requests), scored, total, unscored, *units)


def longest(rows: Rows) -> int:
    """Items of the longest request with a relevant one."""
    size = rows.requests.size[rows.relevant > 0]
    return int(size.max()) if size.size else 0


def add(
    rows: Rows, model: str, metrics: Sequence[OfflineMetric], values: UnitValues
) -> tuple[float, float]:
    """Add the sums of the metrics that have a kernel; the smallest and the largest score."""
    covered = [m for m in metrics if covers(m, rows)]
    values.columns.update(request_counts(rows, model))
    if lists := [m for m in covered if m.definition.family != "pairs"]:
        values.columns.update(list_sums(rows, model, lists))
    if any(m.definition.family == "pairs" for m in covered):
        values.columns.update(pair_sums(rows, model))
    score = rows.scores[model]
    return float(np.nanmin(score)), float(np.nanmax(score))


def list_sums(rows: Rows, model: str, metrics: Sequence[OfflineMetric]) -> dict[str, Floats]:
    """Sums per unit of the ranking metrics of one model (`unit_values.sql`), by column."""
    hits = hits_of(rows, model)
    listed = listed_of(rows.requests, rows.scores[model])
    unit = rows.unit[hits.request[hits.groups.start[:-1]]]
    cuts = {m.cutoff: Cut(hits, listed, m.cutoff) for m in metrics}
    sums: dict[str, Floats] = {}
    for metric in metrics:
        column, k = metric.definition.numerator, metric.cutoff
        value = _fine(VALUES[column](cuts[k]))
        total = np.bincount(unit, weights=value, minlength=rows.units)
        sums[cut_column(column, k)] = np.asarray(total * FINE, dtype=np.float64)
    return sums


def request_counts(rows: Rows, model: str) -> dict[str, Floats]:
    """Requests per unit: all, with a relevant item, with a score, with both (`unit_requests`)."""
    relevant = rows.relevant > 0
    listed = listed_of(rows.requests, rows.scores[model]) > 0
    every = np.ones(listed.size, dtype=np.bool_)
    counts = {
        "requests": every,
        "relevant": relevant,
        "listed": listed,
        "listed_relevant": relevant & listed,
    }
    return {
        name: np.bincount(rows.unit[mask], minlength=rows.units).astype(np.float64)
        for name, mask in counts.items()
    }


def pair_sums(rows: Rows, model: str) -> dict[str, Floats]:
    """Per unit, pairs of a relevant and another row, and GAUC's sums (`pair_values.sql`)."""
    units, at = _by_unit(rows)
    clicked = units.sorted(rows.grade) > 0
    score = units.sorted(rows.scores[model])
    won, tied = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
    for block in units.blocks():
        halves, equal = _block_pairs(block.matrix(score), block.matrix(clicked))
        won[block.groups], tied[block.groups] = halves, equal
    scored = ~np.isnan(score)
    each = {
        "n": units.sums(scored),
        "p": units.sums(clicked & scored),
        "won_halves": won,
        "tied": tied,
    }
    whole = {name: _placed(values, at, rows.units) for name, values in each.items()}
    return _pair_values(whole["n"], whole["p"], whole["won_halves"], whole["tied"])


def _by_unit(rows: Rows) -> tuple[Groups, Whole]:
    """The rows of each unit, and which unit that is."""
    if np.bincount(rows.unit, minlength=1).max() <= 1:
        return rows.requests, rows.unit
    unit = np.repeat(rows.unit, rows.requests.size)
    groups = Groups.of(unit)
    return groups, groups.sorted(unit)[groups.start[:-1]]


def _placed(values: Whole, at: Whole, units: int) -> Floats:
    column = np.zeros(units)
    column[at] = values
    return column


def _block_pairs(scores: Floats, clicked: NDArray[np.bool_]) -> tuple[Whole, Whole]:
    """Twice the pairs that the score orders right, ties once, and the ties (`pairs.sql`)."""
    row, column = np.nonzero(clicked)
    if row.size * scores.shape[1] > _PAIRS_A_ROW * scores.size:
        return _ranked_pairs(scores, clicked)
    others = np.where(clicked, np.nan, scores)[row]
    own = scores[row, column][:, None]
    below, equal = (others < own).sum(axis=1), (others == own).sum(axis=1)
    size = len(scores)
    tied = np.bincount(row, weights=equal, minlength=size).astype(np.int64)
    return 2 * np.bincount(row, weights=below, minlength=size).astype(np.int64) + tied, tied


def _ranked_pairs(scores: Floats, clicked: NDArray[np.bool_]) -> tuple[Whole, Whole]:
    """The same by rank sums, for units with many relevant rows."""
    order = np.argsort(scores, axis=1)
    score, hit = np.take_along_axis(scores, order, 1), np.take_along_axis(clicked, order, 1)
    scored = ~np.isnan(score)
    other = (~hit & scored).astype(np.int64)
    so_far = other.cumsum(axis=1)
    changes = np.ones((len(score), score.shape[1] + 1), dtype=np.bool_)
    changes[:, 1:-1] = score[:, 1:] != score[:, :-1]
    # Counts only grow along a row, so that the last known one is the largest so far.
    below = np.maximum.accumulate(np.where(changes[:, :-1], so_far - other, 0), axis=1)
    ends = np.where(changes[:, 1:], so_far, score.shape[1])[:, ::-1]
    upto = np.minimum.accumulate(ends, axis=1)[:, ::-1]
    own = hit & scored
    return np.where(own, below + upto, 0).sum(axis=1), np.where(own, upto - below, 0).sum(axis=1)


def _pair_values(n: Floats, p: Floats, won: Floats, tied: Floats) -> dict[str, Floats]:
    pairs = p * (n - p)
    both = ((p > 0) & (p < n)).astype(np.float64)
    auc = _over(won, 2 * pairs)
    return {
        "impressions": both * n,
        "gauc_clicks": both * p,
        "units": both,
        "pairs": pairs,
        "all_impressions": n,
        "all_clicks": p,
        "single_class_units": (n > 0) - both,
        "auc_impressions": np.rint(n * auc / SCALE) * SCALE,
        "auc_clicks": np.rint(p * auc / SCALE) * SCALE,
        "auc_units": np.rint(auc / SCALE) * SCALE,
        "auc_impressions_half": np.rint(n * np.where(both > 0, auc, 0.5) / SCALE) * SCALE,
        "won_pairs": won / 2,
        **graded_orders(won, tied, pairs),
    }
