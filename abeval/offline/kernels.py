"""Compute metrics over arrays: the numbers of the queries, faster.

Each part names the query that defines its numbers; tests compare both.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from abeval.offline.metrics import GRADED, UNCUT, Definition, OfflineMetric
from abeval.offline.rows import Block, Groups, Rows, scored, starts
from abeval.results.replay import ModelCoverage
from abeval.stats.records import Bools, Floats, Integers
from abeval.threads import in_threads

SCALE = 1e-9
"""Most values are added as whole multiples of this, so that the order of adding is irrelevant."""

FINE = 1e-12
"""The same for values of lists."""

Key = tuple[str, str, int]
"""A column of sums per unit: family of metrics, name, cut-off."""

_LONGEST = 1_000_000
_PART = 1 << 16
"""Relevant rows of a part."""

_WHOLE = ("hits", "places", "recalls", "early", "first")
"""Terms that are added as they are; others are whole multiples of `FINE`."""


def covers(metric: OfflineMetric, rows: Rows) -> bool:
    """Return whether a metric has a kernel; FCP has one if all relevant items have one grade."""
    family, above = metric.definition.family, metric.definition.above
    return family == "list" or (family == "pairs" and (above not in GRADED or rows.is_binary))


def without_kernel(metrics: Sequence[OfflineMetric], rows: Rows | None) -> list[OfflineMetric]:
    """Return the metrics that queries sum: all if the rows are not at hand as arrays."""
    return [metric for metric in metrics if rows is None or not covers(metric, rows)]


def coverage(rows: Rows) -> Iterator[ModelCoverage]:
    """Count the rows, requests and units that each model scores (`coverage.sql`)."""
    total = int(rows.requests.start[-1])
    for model in sorted(rows.scores):
        listed = rows.listed[model]
        units = (np.count_nonzero(np.bincount(of)) for of in (rows.unit, rows.unit[listed > 0]))
        counts = (listed.size, (listed > 0).sum(), total, total - listed.sum(), *units)
        yield ModelCoverage(model, *map(int, counts))


def unit_sums(rows: Rows, model: str, metrics: Sequence[OfflineMetric]) -> dict[Key, Floats]:
    """Sum per unit what a model's metrics with a kernel need, and count its requests."""
    sums = _request_counts(rows, model)
    covered = [metric for metric in metrics if covers(metric, rows)]
    lists = [metric for metric in covered if metric.definition.family == "list"]
    if covered:
        ranks = ranks_of(rows.requests, rows.scores[model], rows.tie, rows.is_relevant)
    if lists:
        sums |= _list_sums(rows, model, ranks, lists)
    if len(lists) < len(covered):
        sums |= {("pairs", name, UNCUT): v for name, v in _pair_sums(rows, model, ranks).items()}
    return sums


def _request_counts(rows: Rows, model: str) -> dict[Key, Floats]:
    """Count requests per unit: all, with a relevant item, a score, both (`unit_requests`)."""
    relevant, listed = rows.relevant > 0, rows.listed[model] > 0
    counts: dict[str, Bools] = {
        "requests": np.ones(listed.size, dtype=np.bool_),
        "relevant": relevant,
        "listed": listed,
        "listed_relevant": relevant & listed,
    }
    return {("requests", n, UNCUT): _sums(rows.unit, v, rows.ids.size) for n, v in counts.items()}


def _sums(group: Integers, column: Integers | Floats | Bools, size: int) -> Floats:
    # Of nothing, NumPy's sums are whole numbers.
    return np.bincount(group, column, size).astype(np.float64, copy=False)


class Ranks(NamedTuple):
    """The relevant rows of each group, in the order of their places (`places.sql`).

    A `place` counts from 1; rows without a score have 0, and come last in their group. `first` is
    the first place of the rows of the same score, or `place` if there is no other.
    """

    group: Integers
    row: Integers
    place: Integers
    first: Integers
    last: Integers

    def parts(self) -> Iterator["Ranks"]:
        """Divide them into parts of whole groups that fit in a processor's cache."""
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
    """Return the first and last place of the run of equal scores that each place is in."""
    length = ranked.shape[1]
    edge = np.ones((len(ranked), length + 1), dtype=np.bool_)
    edge[:, 1:-1] = ranked[:, 1:] != ranked[:, :-1]
    place = np.arange(1, length + 1)
    first = np.maximum.accumulate(np.where(edge[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(edge[:, 1:], place, length)[:, ::-1], axis=1)[:, ::-1]
    return first, last


def _pair_sums(rows: Rows, model: str, ranks: Ranks) -> dict[str, Floats]:
    """Count pairs of a relevant and another row per unit, and sum GAUC (`pair_values.sql`).

    `ranks` are of requests; the rows are ranked again where units have several.
    """
    (units, number), score = rows.by_unit, rows.scores[model]
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
    return _pair_values(*(_sums(number, column, rows.ids.size) for column in columns))


def _tied(unit: Integers, first: Integers, last: Integers, units: int) -> Floats:
    """Count pairs of a relevant and another row of equal scores."""
    run = starts(unit * (last.max(initial=0) + 1) + first)
    relevant, head = np.diff(run), run[:-1]
    return _sums(unit[head], relevant * (last[head] - first[head] + 1 - relevant), units)


def _pair_values(n: Floats, p: Floats, won: Floats, tied: Floats) -> dict[str, Floats]:
    """Compute `pair_values.sql`; `won` is twice the pairs in order, and tied ones once."""
    pairs = p * (n - p)
    both = ((p > 0) & (p < n)).astype(np.float64)
    auc = ratio(won, 2 * pairs)
    return {
        "impressions": both * n,
        "clicks": both * p,
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
        "graded": pairs,
        "won_graded": won / 2,
        "concordant": (won - tied) / 2,
        "ordered": pairs - tied,
    }


class Hits:
    """The relevant items of each request, in the order of their places (`hits.sql`)."""

    def __init__(self, rows: Rows, ranks: Ranks) -> None:
        start = starts(ranks.group)
        self.request = ranks.group[start[:-1]]
        self.relevant = np.diff(start)
        self.place = np.where(ranks.place > 0, ranks.place, UNCUT + 1)
        self.list = np.repeat(np.arange(self.relevant.size), self.relevant)
        self.number = np.arange(1, ranks.group.size + 1) - start[self.list]
        self.grade = rows.grade[ranks.row].astype(np.float64)
        self._terms: dict[str, Floats] = {}

    def term(self, name: str) -> Floats:
        """Return each hit's term of a sum of `list_values.sql`, computed once."""
        if name not in self._terms:
            term = self._term(name)
            self._terms[name] = term if name in _WHOLE else np.rint(term / FINE)
        return self._terms[name]

    def _term(self, name: str) -> Floats:
        if name in _TERMS:
            return _TERMS[name](self)
        (order, kind), is_listed = name.split("_"), self.place <= UNCUT
        if order == "dcg":
            return _gain(kind, self.grade) / _discount(np.where(is_listed, self.place, 1))
        grade = self.grade if order == "ideal" else np.where(is_listed, self.grade, 0.0)
        return _gain(kind, self._best(grade)) / _discount(self.number)

    def _best(self, grade: Floats) -> Floats:
        """Sort the grades of each request, the highest first."""
        # With equal grades any order is best, and hits without a place are last already.
        is_constant = self.grade.min() == self.grade.max()
        return grade if is_constant else grade[np.lexsort((-grade, self.list))]


_TERMS: Mapping[str, Callable[[Hits], Floats]] = {
    "hits": lambda hits: np.ones(hits.place.size),
    "places": lambda hits: hits.place.astype(np.float64),
    "precisions": lambda hits: hits.number / hits.place,
    "recalls": lambda hits: hits.number.astype(np.float64),
    "reciprocals": lambda hits: 1 / hits.place,
    "first": lambda hits: np.where(hits.number == 1, 1 / hits.place, 0.0),
    "gain": lambda hits: hits.grade,
    "early": lambda hits: (hits.place <= hits.relevant[hits.list]).astype(np.float64),
}
"""What a column of `list_values.sql` sums over hits; the others are DCG."""


class Cut:
    """The columns of `list_values.sql` at one cut-off, per request with a relevant item."""

    def __init__(self, hits: Hits, listed: Integers, k: int) -> None:
        relevant = hits.relevant.astype(np.float64)
        self._columns: dict[str, Floats] = {
            "k": np.full(relevant.size, float(k)),
            "relevant": relevant,
            "best": np.minimum(relevant, k),
            "mean_size": (k + relevant) / 2,
        }
        self._hits, self._k, self._shown = hits, k, np.minimum(listed, k)
        self._one = np.ones(relevant.size)
        self._inside = {
            ordered: np.flatnonzero((hits.number if ordered else hits.place) <= k)
            for ordered in (False, True)
        }

    def value(self, definition: Definition) -> Floats:
        """Return a metric's value in multiples of `FINE`, whose sums do not depend on the order."""
        above, factors = self[definition.above], definition.below.split()
        if "fine" in factors:
            above = above * FINE
        below = math.prod((self[of] for of in factors if of != "fine"), start=self._one)
        return np.rint(ratio(above, below) / FINE)

    def __getitem__(self, name: str) -> Floats:
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def _column(self, name: str) -> Floats:
        match name:
            case "any_hit":
                return np.minimum(self["hits"], 1)
            case "steps":
                # Places of the list from each hit to the cut-off.
                return (self._shown + 1) * self["hits"] - self["places"]
            case "full_ideal":
                return np.full(self._shown.size, full_ideal(self._k) or np.inf)
        # The ideal orders have their own places, which the hits' numbers are.
        inside = self._inside[name.startswith(("ideal", "list"))]
        return _sums(self._hits.list[inside], self._hits.term(name)[inside], self._shown.size)


def _list_sums(
    rows: Rows, model: str, ranks: Ranks, metrics: Sequence[OfflineMetric]
) -> dict[Key, Floats]:
    """Sum the values of lists per unit (`unit_values.sql`)."""
    # Where every grade is 1, all three gains are equal, and computed once.
    is_one = rows.is_binary and rows.grades.max(initial=0) == 1
    computed = {m: (_binary(m.definition) if is_one else m.definition, m.cutoff) for m in metrics}
    wanted = set(computed.values())

    def values(part: Ranks) -> tuple[Integers, dict[tuple[Definition, int], Floats]]:
        hits = Hits(rows, part)
        cuts = {k: Cut(hits, rows.listed[model][hits.request], k) for k in {k for _, k in wanted}}
        return rows.unit[hits.request], {(d, k): cuts[k].value(d) for d, k in wanted}

    parts = list(in_threads(values, ranks.parts()))
    unit = np.concatenate([np.zeros(0, np.int64), *(unit for unit, _ in parts)])
    sums = {}
    for key in wanted:
        column = np.concatenate([np.zeros(0), *(of[key] for _, of in parts)])
        sums[key] = FINE * _sums(unit, column, rows.ids.size)
    return {("list", m.definition.column, m.cutoff): sums[key] for m, key in computed.items()}


def _binary(definition: Definition) -> Definition:
    """Replace gains by those of binary relevance; metrics that sum the same become one."""
    above, below = (re.sub("_(lin|exp)", "_bin", of) for of in (definition.above, definition.below))
    return Definition("", "", "list", "optional", above, below, "")


def _gain(kind: str, grade: Floats) -> Floats:
    if kind == "lin":
        return grade
    # Exponential gains stop at 2^20; metrics of larger relevance are refused.
    return np.sign(grade) if kind == "bin" else 2.0 ** np.minimum(grade, 20) - 1


def _discount(place: Integers) -> Floats:
    discounts: Floats = np.log2(1 + np.arange(place.max() + 1.0))
    return discounts[place]


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide element by element; 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def full_ideal(k: int) -> float | None:
    """Return the DCG of k relevant items in multiples of 1e-12; None beyond any list's length.

    Example:
        >>> full_ideal(1)
        1000000000000.0
    """
    if k > _LONGEST:
        return None
    return float(sum(round(1e12 / math.log2(1 + place)) for place in range(1, k + 1)))
