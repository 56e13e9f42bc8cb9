"""Places of the relevant rows of groups, by a model's scores.

`offline/kernels/choice.py` ranks the rows of requests or of units once; `lists.py` and `pairs.py`
compute all their metrics from these `Ranks`.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from abeval.offline.rows import Block, Groups, starts
from abeval.stats.records import Bools, Floats, Integers
from abeval.threads import in_threads

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

    def parts(self) -> Iterator["Ranks"]:
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
