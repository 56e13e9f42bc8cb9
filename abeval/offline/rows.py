"""Read candidates as arrays, grouped by request, for kernels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import ArrayEngine, Engine, row_count
from abeval.stats.records import Bools, Floats, Integers

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
        """Group equal keys, in the order of their first rows; in most logs each is one run."""
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
        """Count the rows of each group."""
        return np.diff(self.start)

    def sorted(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """Bring the rows of each group together."""
        return column if self.order is None else np.take(column, self.order)

    def sums(self, column: Bools) -> Integers:
        """Count true values per group, of a column in group order."""
        return np.diff(np.searchsorted(np.flatnonzero(column), self.start))

    def blocks(self) -> Iterator["Block"]:
        """Yield all groups, in blocks of equal length."""
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
    """Some groups of one length, by their indices in the `Groups`, ascending."""

    groups: Integers
    start: Integers
    length: int

    def matrix(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """Take values of a column that `Groups.sorted` has reordered, shape (groups, length)."""
        first = self.start[self.groups]
        # Groups that follow each other are a view of the column, without a copy.
        if first[-1] - first[0] == (first.size - 1) * self.length:
            return column[first[0] : first[-1] + self.length].reshape(-1, self.length)
        rows = first[:, None] + np.arange(self.length)
        return np.asarray(column[rows])


def starts(key: NDArray[np.generic]) -> Integers:
    """Return where runs of equal keys start, and last the number of rows.

    Example:
        >>> starts(np.array([7, 7, 3])).tolist()
        [0, 2, 3]
    """
    if not key.size:
        return np.zeros(1, dtype=np.int64)
    edges = np.flatnonzero(key[1:] != key[:-1]) + 1
    return np.concatenate([[0], edges, [key.size]]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Listed items, request after request.

    Attributes:
        unit: Index into `ids` of the unit of each request, shape (requests,).
        tie: Of equal scores, the larger `tie` ranks higher; shape (rows,).
        grade: Relevance, shape (rows,).
        scores: Model → its scores, NaN where it has none, shape (rows,).
    """

    requests: Groups
    unit: Integers
    tie: Integers
    grade: NDArray[np.int64 | np.float64]
    scores: Mapping[str, Floats]
    ids: NDArray[np.generic]

    @cached_property
    def is_relevant(self) -> Bools:
        """Return whether each row is relevant."""
        return np.asarray(self.grade > 0)

    @cached_property
    def grades(self) -> NDArray[np.int64 | np.float64]:
        """Return the relevance of the relevant rows."""
        return self.grade[np.flatnonzero(self.is_relevant)]

    @cached_property
    def relevant(self) -> Integers:
        """Count the relevant items of each request."""
        return self.requests.sums(self.is_relevant)

    @cached_property
    def listed(self) -> Mapping[str, Integers]:
        """Count the scored items of each request, by model."""
        return {model: scored(self.requests, score) for model, score in self.scores.items()}

    @cached_property
    def is_binary(self) -> bool:
        """Return whether all relevant items have the same grade."""
        return not self.grades.size or bool(self.grades.min() == self.grades.max())

    @cached_property
    def by_unit(self) -> tuple[Groups, Integers]:
        """Group rows by unit, with the index of the unit; `requests` if each unit has one."""
        if np.bincount(self.unit, minlength=1).max() <= 1:
            return self.requests, self.unit
        unit = np.repeat(self.unit, self.requests.size)
        groups = Groups.of(unit)
        return groups, groups.sorted(unit)[groups.start[:-1]]

    def uncompared(self) -> Bools:
        """Mark requests that some models score and others do not (`uncompared.sql`)."""
        listed = [items > 0 for items in self.listed.values()]
        # A model without any score does not count.
        scored = [mask for mask in listed if mask.any()]
        if len(scored) < 2:
            return np.zeros(len(self.requests), dtype=np.bool_)
        some: Bools = np.any(scored, axis=0)
        every: Bools = np.all(scored, axis=0)
        return some & ~every

    def only(self, kept: Bools) -> "Rows":
        """Keep the rows of the requests where `kept` is true."""
        start = np.concatenate([[0], np.cumsum(self.requests.size[kept])]).astype(np.int64)
        row = np.repeat(kept, self.requests.size)
        return replace(
            self,
            requests=Groups(start),
            unit=self.unit[kept],
            tie=self.tie[row],
            grade=self.grade[row],
            scores={model: score[row] for model, score in self.scores.items()},
        )

    def of_units(self, ids: NDArray[np.generic]) -> "Rows":
        """Keep units with these ascending ids, renumbered."""
        place, known = np.searchsorted(ids, self.ids), np.isin(self.ids, ids)
        rows = replace(self, unit=place[self.unit].astype(np.int64), ids=ids)
        return rows if known.all() else rows.only(known[self.unit])


def scored(groups: Groups, score: Floats) -> Integers:
    """Count the rows of each group that have a score."""
    missing = np.isnan(score)
    return groups.sums(~missing) if missing.any() else groups.size


def read_rows(
    engine: Engine, source: str, tie: str, request: str, scores: Mapping[str, str]
) -> Rows | None:
    """Fetch the rows of all models.

    The relation `source` has the column `tie`, of which the larger ranks higher, and `request`,
    which is `unit_id` if the log has no requests; `scores` has SQL. Return None where rows cannot
    be used: the engine has no arrays, ids are not integers, an id is missing, an item is repeated
    in a request, or a request has two units.
    """
    if not isinstance(engine, ArrayEngine) or not scores:
        return None
    types = engine.columns(source)
    if tie not in types or any(types[name] not in INTEGER_TYPES for name in (*_KEYS, request, tie)):
        return None
    keys = list(dict.fromkeys([*_KEYS, request, tie]))
    columns = _fetched(engine, source, [*keys, "grade"], list(scores.values()))
    if columns is None:
        return None
    requests = Groups.of(columns[request])
    of = {name: requests.sorted(column) for name, column in columns.items()}
    unit = of["unit_id"]
    several = request != "unit_id" and not np.isin(starts(unit), requests.start).all()
    in_request = (np.sort(block.matrix(of["item_id"]), axis=1) for block in requests.blocks())
    if several or any((items[:, 1:] == items[:, :-1]).any() for items in in_request):
        return None
    known, number = np.unique(unit[requests.start[:-1]], return_inverse=True)
    return Rows(
        requests=Groups(requests.start),
        unit=number.astype(np.int64),
        tie=of[tie],
        grade=of["grade"],
        scores={model: of[f"m_{i}"] for i, model in enumerate(scores)},
        ids=known,
    )


_KEYS = ("unit_id", "item_id")

INTEGER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types of ids that arrays can hold."""


def _fetched(
    engine: ArrayEngine, source: str, names: Sequence[str], scores: Sequence[str]
) -> dict[str, NDArray[Any]] | None:
    """Fetch columns, and scores as `m_N`, NaN where missing; None if a column lacks a value."""
    known = " and ".join(f"{name} is not null" for name in names)
    listed = [f"{known} as is_known", *(f"coalesce({name}, 0) as {name}" for name in names)]
    listed += [f"coalesce({sql}, 'nan'::double) as m_{i}" for i, sql in enumerate(scores)]
    rows, first = row_count(engine, source), 0
    columns: dict[str, NDArray[Any]] = {}
    for chunk in engine.chunks(f"select {', '.join(listed)} from {source}"):
        # Each part is copied while it is in the cache; together they would be copied from memory.
        for name, part in chunk.items():
            if name not in columns:
                columns[name] = np.empty(rows, part.dtype)
            columns[name][first : first + part.size] = part
        first += chunk["is_known"].size
    return columns if columns and columns.pop("is_known").all() else None
