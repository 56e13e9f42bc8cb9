"""Compute metrics over arrays: the numbers of the queries, faster."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.offline.metrics import UNCUT, OfflineMetric
from abeval.offline.rows import Block, Groups, Rows, scored, starts
from abeval.results.replay import ModelCoverage
from abeval.stats.records import Bools, Floats, Integers
from abeval.threads import in_threads

if TYPE_CHECKING:
    import pandas as pd

SCALE = 1e-9
"""Queries add most values as whole multiples of this, so that the order of adding is irrelevant."""

FINE = 1e-12
"""The same for ranking values."""


@dataclass(frozen=True)
class UnitValues:
    """One model's columns per unit, all in the order of `units`; columns are added in place.

    Attributes:
        units: The ids of the units of the replay (`candidates/traffic`), ascending.
        columns: Column → its values, shape (units,).
    """

    units: NDArray[np.generic]
    columns: dict[str, Floats] = field(default_factory=dict)

    def add(self, frame: pd.DataFrame, names: Mapping[str, str], scale: float = 1.0) -> None:
        """Add columns of a frame with one row per `unit_id`.

        A unit without a row has zero; rows of other units are ignored. `names` maps a column of the
        frame to its name here; the frame's whole numbers are multiplied by `scale`.
        """
        import pandas as pd

        place = pd.Index(self.units).get_indexer(pd.Index(frame["unit_id"]))
        known = place >= 0
        for column, name in names.items():
            values = np.zeros(len(self.units))
            values[place[known]] = frame[column].to_numpy(dtype=np.float64)[known] * scale
            self.columns[name] = values

    def add_cuts(self, frame: pd.DataFrame, ks: Iterable[int]) -> None:
        """Add the columns `v_…` of `unit_values.sql`, as `…@k` for each cut-off `k`."""
        columns = [str(name) for name in frame.columns if str(name).startswith("v_")]
        for k in ks:
            names = {name: cut_column(name.removeprefix("v_"), k) for name in columns}
            self.add(frame[frame["k"] == k], names, FINE)

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]


def cut_column(column: str, k: int) -> str:
    """The name of a ranking value at a cut-off.

    Example:
        >>> cut_column("recall", 10)
        'recall@10'
    """
    return f"{column}@{k}"


GRADED = frozenset({"concordant", "won_graded"})
"""Numerators of FCP: they count pairs of unequal relevance, whatever its levels.

They have a kernel only where relevance is binary.
"""

_LONGEST = 1_000_000


def ratio(above: Floats, below: Floats | float) -> Floats:
    """Above / below, element by element; 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=np.asarray(below) > 0)


def full_ideal(k: int) -> float | None:
    """DCG of k relevant items in multiples of 1e-12; None for a k beyond the length of any list.

    Example:
        >>> full_ideal(1)
        1000000000000.0
    """
    if k > _LONGEST:
        return None
    return float(sum(round(1e12 / math.log2(1 + i)) for i in range(1, k + 1)))


def graded_orders(won_halves: Floats, tied: Floats, pairs: Floats) -> dict[str, Floats]:
    """The columns of FCP per unit; `won_halves` is 2 × pairs in order + tied pairs."""
    return {
        "graded": pairs,
        "won_graded": won_halves / 2,
        "concordant": (won_halves - tied) / 2,
        "ordered": pairs - tied,
    }


_PART = 1 << 16
"""Relevant rows of a part."""


class Ranks(NamedTuple):
    """The relevant rows of each group, in the order of their places (`places.sql`).

    Those without a score come last in their group.

    Attributes:
        group: Index of the group of each.
        row: Its index among all rows, in the order of groups.
        place: From 1; 0 without a score.
        first: First place of the rows of the same score; `place` if there is no other.
        last: Their last place.
    """

    group: Integers
    row: Integers
    place: Integers
    first: Integers
    last: Integers

    def parts(self) -> Iterator[Ranks]:
        """The same, in parts of whole groups that fit in a processor's cache."""
        start = starts(self.group)
        wanted = np.append(np.arange(0, start[-1], _PART), start[-1])
        edges = set(start[np.searchsorted(start, wanted)].tolist())
        for first, end in pairwise(sorted(edges)):
            yield Ranks(*(column[first:end] for column in self))


def ranks_of(groups: Groups, score: Floats, tie: Integers, relevant: Bools) -> Ranks:
    """Rank the rows of each group; of equal scores, the larger `tie` comes first.

    The columns are in the order of groups, shape (rows,).

    Example:
        >>> score, tie = np.array([0.1, 0.9, 0.1]), np.array([7, 8, 9])
        >>> ranks = ranks_of(Groups(np.array([0, 3])), score, tie, np.array([True, True, False]))
        >>> ranks.row.tolist(), ranks.place.tolist(), ranks.first.tolist()
        ([1, 0], [1, 3], [1, 2])
    """
    blocks = in_threads(lambda block: _ranks(block, score, tie, relevant), groups.blocks())
    columns = zip([np.zeros(0, np.int64)] * 5, *blocks, strict=True)
    return Ranks(*(np.concatenate(parts) for parts in columns))


def _ranks(block: Block, score: Floats, tie: Integers, relevant: Bools) -> Ranks:
    scores, length = block.matrix(score), block.length
    start = np.arange(len(scores))[:, None] * length
    order = np.argsort(-scores, axis=1) + start
    ranked = scores.ravel()[order]
    ties = ranked[:, 1:] == ranked[:, :-1]
    has_ties = bool(ties.any())
    if has_ties:
        tied = np.flatnonzero(ties.any(axis=1))
        keys = (~block.matrix(tie)[tied], -scores[tied])
        order[tied] = np.lexsort(keys, axis=1) + start[tied]
    hit = np.flatnonzero(block.matrix(relevant).ravel()[order])
    group, column = np.divmod(hit, length)
    row = order.ravel()[hit] - group * length + block.start[block.groups[group]]
    place = np.where(np.isnan(ranked.ravel()[hit]), 0, column + 1)
    first, last = (places.ravel()[hit] for places in _runs(ranked)) if has_ties else (place, place)
    return Ranks(block.groups[group], row, place, first, last)


def _runs(ranked: Floats) -> tuple[Integers, Integers]:
    """First and last place of the run of equal scores that each place is in."""
    length = ranked.shape[1]
    edge = np.ones((len(ranked), length + 1), dtype=np.bool_)
    edge[:, 1:-1] = ranked[:, 1:] != ranked[:, :-1]
    place = np.arange(1, length + 1)
    first = np.maximum.accumulate(np.where(edge[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(edge[:, 1:], place, length)[:, ::-1], axis=1)[:, ::-1]
    return first, last


def pair_sums(rows: Rows, model: str, of_requests: Ranks) -> dict[str, Floats]:
    """Per unit, pairs of a relevant and another row, and GAUC's sums (`pair_values.sql`).

    `of_requests` ranks the rows of the requests, which are ranked again where units have several.
    """
    (units, number), score, ranks = rows.by_unit, rows.scores[model], of_requests
    if units is not rows.requests:
        score = units.sorted(score)
        ranks = ranks_of(units, score, units.sorted(rows.tie), units.sorted(rows.is_relevant))
    if np.isnan(score).any():
        ranks = Ranks(*(column[ranks.place > 0] for column in ranks))
    unit, first, last = ranks.group, ranks.first, ranks.last
    n, p = scored(units, score), np.bincount(unit, minlength=len(units))
    # Rank sums: from the lowest score, twice the mean rank of a run is 2n + 2 − its two ends.
    won = _sums(unit, 2 * n[unit] + 2 - first - last, n.size) - p * (p + 1)
    columns = (n, p, won, _tied(unit, first, last, n.size))
    return _pair_values(*(_sums(number, column, rows.units) for column in columns))


def _tied(unit: Integers, first: Integers, last: Integers, units: int) -> Floats:
    """Pairs of a relevant and another row of equal scores."""
    run = starts(unit * (last.max(initial=0) + 1) + first)
    relevant, head = np.diff(run), run[:-1]
    return _sums(unit[head], relevant * (last[head] - first[head] + 1 - relevant), units)


def _sums(group: Integers, column: Integers | Floats, size: int) -> Floats:
    return np.bincount(group, column, size).astype(np.float64, copy=False)


def _pair_values(n: Floats, p: Floats, won: Floats, tied: Floats) -> dict[str, Floats]:
    pairs = p * (n - p)
    both = ((p > 0) & (p < n)).astype(np.float64)
    auc = ratio(won, 2 * pairs)
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


def covers(metric: OfflineMetric, rows: Rows) -> bool:
    """Whether a metric has a kernel. FCP has one if all relevant items have the same grade."""
    family, column = metric.definition.family, metric.definition.numerator
    if family == "pairs":
        return column not in GRADED or rows.is_binary
    return family in ("list", "r_precision")


def without_kernel(metrics: Sequence[OfflineMetric], rows: Rows | None) -> list[OfflineMetric]:
    """The metrics that queries sum: all of them if the rows are not at hand as arrays."""
    return [metric for metric in metrics if rows is None or not covers(metric, rows)]


def coverage(rows: Rows) -> Iterator[ModelCoverage]:
    """Rows, requests and units that each model scores (`coverage.sql`)."""
    for model in sorted(rows.scores):
        listed = rows.listed[model]
        scored = int((listed > 0).sum())
        total = int(rows.requests.start[-1])
        units = [_distinct(rows.unit[mask]) for mask in (listed >= 0, listed > 0)]
        unscored = total - int(listed.sum())
        yield ModelCoverage(model, len(rows.requests), scored, total, unscored, *units)


def _distinct(numbers: Integers) -> int:
    return int(np.count_nonzero(np.bincount(numbers)))


def add(
    rows: Rows, model: str, metrics: Sequence[OfflineMetric], values: UnitValues
) -> tuple[float, float]:
    """Add the sums of the metrics that have a kernel, and return the model's score range."""
    score, covered = rows.scores[model], [m for m in metrics if covers(m, rows)]
    values.columns.update(_request_counts(rows, model))
    if covered:
        ranks = ranks_of(rows.requests, score, rows.tie, rows.is_relevant)
    if lists := [m for m in covered if m.definition.family != "pairs"]:
        values.columns.update(list_sums(rows, model, ranks, lists))
    if any(m.definition.family == "pairs" for m in covered):
        values.columns.update(pair_sums(rows, model, ranks))
    return float(np.nanmin(score)), float(np.nanmax(score))


def _request_counts(rows: Rows, model: str) -> dict[str, Floats]:
    """Requests per unit: all, with a relevant item, with a score, with both (`unit_requests`)."""
    relevant = rows.relevant > 0
    listed = rows.listed[model] > 0
    counts = {
        "requests": np.ones(listed.size),
        "relevant": relevant,
        "listed": listed,
        "listed_relevant": relevant & listed,
    }
    return {
        name: np.bincount(rows.unit, weights=mask, minlength=rows.units).astype(np.float64)
        for name, mask in counts.items()
    }
