"""Rows grouped by a key (request or unit); groups of one length become the rows of a matrix.

`candidates/rows` groups fetched rows by request; the kernels compute on the matrices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.stats.records import Bools, Integers

Kind = TypeVar("Kind", bound=np.generic)

_CELLS = 1 << 15
"""Cells of a matrix that fit in a processor's cache."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows grouped by a key.

    Attributes:
        start: First row of each group, and last the number of rows, shape (groups + 1,).
        order: The order that brings groups together; None where rows are in order already.

    Example:
        >>> groups = Groups.of(np.array([7, 7, 3]))
        >>> groups.start.tolist(), groups.order, groups.size.tolist()
        ([0, 2, 3], None, [2, 1])
    """

    start: Integers
    order: Integers | None = None

    @classmethod
    def of(cls, key: NDArray[np.generic]) -> "Groups":
        """Groups of equal keys, in the order of their first rows; in most logs each is one run."""
        start = starts(key)
        _, first, number = np.unique(key[start[:-1]], return_index=True, return_inverse=True)
        if first.size == start.size - 1:
            return cls(start)
        # Runs move to the first one of their key: rows that are together are copied together.
        leader = first[number]
        by_leader = np.argsort(leader, kind="stable")
        size = np.diff(start)[by_leader]
        ends = np.concatenate([[0], np.cumsum(size)])
        order = np.arange(key.size) + np.repeat(start[by_leader] - ends[:-1], size)
        return cls(ends[starts(leader[by_leader])], order)

    def __len__(self) -> int:
        return self.start.size - 1

    @property
    def size(self) -> Integers:
        """Rows of each group."""
        return np.diff(self.start)

    def sorted(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """A column with the rows of each group together."""
        return column if self.order is None else np.take(column, self.order)

    def sums(self, column: Bools) -> Integers:
        """True values per group, of a column in group order."""
        return np.diff(np.searchsorted(np.flatnonzero(column), self.start))

    def blocks(self) -> Iterator["Block"]:
        """All groups, in blocks of equal length."""
        size = self.size
        # Stable, so that groups of one length keep their order and are often adjacent.
        by_size = np.argsort(size, kind="stable")
        edges = np.flatnonzero(np.diff(size[by_size])) + 1
        for groups in np.split(by_size, edges) if by_size.size else []:
            length = int(size[groups[0]])
            step = max(_CELLS // length, 1)
            for first in range(0, groups.size, step):
                yield Block(groups[first : first + step], self.start, length)


@dataclass(frozen=True, eq=False)
class Block:
    """Some groups of one length.

    Attributes:
        groups: Their indices in the `Groups`, ascending.
        start: `Groups.start`, of all groups.
        length: Rows of each of these groups.
    """

    groups: Integers
    start: Integers
    length: int

    def matrix(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """Values of a column that `Groups.sorted` has reordered, shape (groups, length)."""
        first = self.start[self.groups]
        # Groups that follow each other are a view of the column, without a copy.
        if first[-1] - first[0] == (first.size - 1) * self.length:
            return column[first[0] : first[-1] + self.length].reshape(-1, self.length)
        rows = first[:, None] + np.arange(self.length)
        return np.asarray(column[rows])


def starts(key: NDArray[np.generic]) -> Integers:
    """Where runs of equal keys start, and last the number of rows.

    Example:
        >>> starts(np.array([7, 7, 3])).tolist()
        [0, 2, 3]
    """
    if not key.size:
        return np.zeros(1, dtype=np.int64)
    edges = np.flatnonzero(key[1:] != key[:-1]) + 1
    return np.concatenate([[0], edges, [key.size]]).astype(np.int64)
