"""Relevant items and their places over arrays; the definition is `queries/offline/hits.sql`.

`offline/kernels/lists.py` calls it with the `Rows` of the replay and a model, and computes ranking
metrics from the `Hits`.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from abeval.offline.candidates.grouping import Block, Groups
from abeval.offline.candidates.rows import Rows
from abeval.offline.metrics.units import FINE
from abeval.stats.arrays import Floats, Integers

COMPARISONS_A_ROW = 16
"""Each relevant item is compared with its whole row; above this many per row, rows are sorted."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The relevant items of each request, in the order of their places (`hits.sql`).

    Attributes:
        request: Number of the request.
        place: Place by score, 0 where the model has no score.
        grade: Relevance.
    """

    request: Integers
    place: Integers
    grade: Floats
    _terms: dict[str, Floats] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Groups:
        """The hits of each request that has any."""
        return Groups.of(self.request)

    @cached_property
    def number(self) -> Integers:
        """1 for the first hit of its request, and so on."""
        start, size = self.groups.start, self.groups.size
        return np.arange(1, start[-1] + 1) - np.repeat(start[:-1], size)

    @cached_property
    def ideal(self) -> Integers:
        """Places in the best order of all relevant items."""
        return self._best(self.grade)

    @cached_property
    def list_ideal(self) -> Integers:
        """Places in the best order of the list, where an item without a score has no gain."""
        return self._best(np.where(self.place > 0, self.grade, 0.0))

    def _best(self, gain: Floats) -> Integers:
        # With equal gains any order is best, and hits without a place are last already.
        if self._is_constant:
            return self.number
        place = np.empty_like(self.number)
        place[np.lexsort((-gain, self.request))] = self.number
        return place

    @cached_property
    def _is_constant(self) -> bool:
        return not self.grade.size or bool(self.grade.min() == self.grade.max())

    def gain(self, kind: str) -> str:
        """`bin` where every grade is 1, so that all three gains are equal; else `kind`."""
        binary = self._is_constant and self.grade.size > 0 and self.grade[0] == 1
        return "bin" if binary else kind

    def term(self, name: str) -> Floats:
        """Each hit's term of a sum in `list_values.sql`, computed once."""
        if name not in self._terms:
            self._terms[name] = self._term(name)
        return self._terms[name]

    def _term(self, name: str) -> Floats:
        places = np.maximum(self.place, 1)
        match name:
            case "hits":
                return np.ones(self.place.size)
            case "precisions":
                return fine(self.number / places)
            case "recalls":
                return self.number.astype(np.float64)
            case "reciprocals":
                return fine(1 / self._at_places)[places]
            case "first":
                return np.where(self.number == 1, 1 / places, 0.0)
            case "gain":
                return fine(self.grade)
        order, kind = name.split("_")
        place = {"dcg": places, "ideal": self.ideal, "list": self.list_ideal}[order]
        discount: Floats = np.log2(1 + self._at_places)
        if kind == "bin":
            terms: Floats = fine(1 / discount)[place]
            return terms
        return fine(self._gains(kind) / discount[place])

    @cached_property
    def _at_places(self) -> Floats:
        """Index array of places; position 0 is a placeholder."""
        last = max(self.place.max(initial=1), self.groups.size.max(initial=1))
        return np.maximum(np.arange(last + 1.0), 1.0)

    def _gains(self, kind: str) -> Floats:
        # Exponential gains stop at 2^20; metrics of larger relevance are refused.
        return self.grade if kind == "lin" else 2.0 ** np.minimum(self.grade, 20) - 1


def hits_of(rows: Rows, model: str) -> Hits:
    """The places of the relevant items (`places.sql`)."""
    score = rows.scores[model]
    blocks = [_block_hits(block, rows, score) for block in rows.requests.blocks()]
    empty = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    request, place, grade = (np.concatenate(parts) for parts in zip(empty, *blocks, strict=True))
    # Hits without a place come last; one combined key sorts faster than two.
    last = rows.longest + 1
    key = request * (last + 1) + np.where(place > 0, place, last)
    if rows.is_binary:
        key.sort()
        request, place = np.divmod(key, last + 1)
        return Hits(request, np.where(place < last, place, 0), grade)
    order = np.argsort(key)
    return Hits(request[order], place[order], grade[order])


def _block_hits(block: Block, rows: Rows, score: Floats) -> tuple[Integers, Integers, Floats]:
    grades = block.matrix(rows.grade)
    row, column = np.nonzero(grades > 0)
    scores, ties = block.matrix(score), block.matrix(rows.tie)
    if row.size * block.length <= COMPARISONS_A_ROW * grades.size:
        place = _counted_places(scores, ties, row, column)
    else:
        place = _sorted_places(scores, ties)[row, column]
    place[np.isnan(scores[row, column])] = 0
    return block.groups[row], place, grades[row, column]


def _counted_places(scores: Floats, ties: Integers, row: Integers, column: Integers) -> Integers:
    """One plus the number of items above."""
    own = scores[row, column][:, None]
    others = scores[row]
    above: Integers = np.count_nonzero(others > own, axis=1)
    equal = others == own
    # Every scored item equals itself; more equalities than that are ties.
    if np.count_nonzero(equal) > np.count_nonzero(~np.isnan(own)):
        higher = ties[row] > ties[row, column][:, None]
        above += np.count_nonzero(equal & higher, axis=1)
    return above + 1


def _sorted_places(scores: Floats, ties: Integers) -> Integers:
    """The place of every item; those without a score come last."""
    by_tie = np.argsort(-ties, axis=1, kind="stable")
    by_score = np.argsort(-np.take_along_axis(scores, by_tie, 1), axis=1, kind="stable")
    order = np.take_along_axis(by_tie, by_score, 1)
    places = np.empty(order.shape, dtype=np.int64)
    np.put_along_axis(places, order, np.arange(1, order.shape[1] + 1)[None, :], 1)
    return places


def fine(term: Floats) -> Floats:
    """Round to whole multiples of 1e-12, whose sums do not depend on the order."""
    return np.rint(term / FINE)
