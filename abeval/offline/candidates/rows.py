"""Candidates as arrays, for kernels: used when ids are integers and no item repeats in a request.

`offline/replay_run.py` and `offline/evaluate_log.py` read them from the view `candidate_rows`;
`offline/sums/run.py` hands them to the kernels. Without them, queries compute the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine, Engine
from abeval.offline.candidates.grouping import Groups
from abeval.stats.arrays import Bools, Floats, Integers

_PART = 1 << 17
"""Rows of a part, which fit in a processor's cache."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Listed items, request after request.

    Attributes:
        requests: Where each request starts.
        unit: Index into `ids` of the unit of each request, shape (requests,).
        tie: Of equal scores, the larger `tie` ranks higher; shape (rows,).
        grade: Relevance, shape (rows,).
        scores: Model → its scores, NaN where it has none, shape (rows,).
        ids: The ids of the units, ascending.
    """

    requests: Groups
    unit: Integers
    tie: Integers
    grade: Floats
    scores: Mapping[str, Floats]
    ids: NDArray[np.generic]

    @property
    def units(self) -> int:
        """Number of units."""
        return self.ids.size

    @cached_property
    def relevant(self) -> Integers:
        """Relevant items of each request."""
        return self.requests.sums(self.grade > 0)

    @cached_property
    def is_binary(self) -> bool:
        """Whether all relevant items have the same grade."""
        relevant = self.grade[self.grade > 0]
        return not relevant.size or bool(relevant.min() == relevant.max())

    @cached_property
    def longest(self) -> int:
        """Number of items in the longest request that has a relevant one."""
        return int(self.requests.size[self.relevant > 0].max(initial=0))

    def parts(self) -> Iterator["Rows"]:
        """The rows in parts of whole requests."""
        start = self.requests.start
        if start[-1] <= _PART:
            yield self
            return
        ends = np.searchsorted(start, np.arange(_PART, start[-1] + _PART, _PART), side="right") - 1
        edges = np.unique(np.concatenate([[0], ends, [start.size - 1]]))
        for first, end in pairwise(edges.tolist()):
            yield self._slice(first, end)

    def _slice(self, first: int, end: int) -> "Rows":
        start = self.requests.start[first : end + 1]
        row = slice(int(start[0]), int(start[-1]))
        return self._part(Groups(start - start[0]), self.unit[first:end], row)

    def uncompared(self) -> Bools:
        """Requests that some models score and others do not (`uncompared.sql`)."""
        listed = [listed_of(self.requests, score) > 0 for score in self.scores.values()]
        # A model without any score does not count.
        scored = [mask for mask in listed if mask.any()]
        if len(scored) < 2:
            return np.zeros(len(self.requests), dtype=np.bool_)
        some: Bools = np.any(scored, axis=0)
        every: Bools = np.all(scored, axis=0)
        return some & ~every

    def only(self, kept: Bools) -> "Rows":
        """The rows of the requests where `kept` is true."""
        start = np.concatenate([[0], np.cumsum(self.requests.size[kept])]).astype(np.int64)
        return self._part(Groups(start), self.unit[kept], np.repeat(kept, self.requests.size))

    def _part(self, requests: Groups, unit: Integers, row: slice | Bools) -> "Rows":
        scores = {model: score[row] for model, score in self.scores.items()}
        return Rows(requests, unit, self.tie[row], self.grade[row], scores, self.ids)

    def of_units(self, ids: NDArray[np.generic]) -> "Rows | None":
        """The rows of units with these ascending ids, renumbered; None if ids are not integers."""
        if not np.issubdtype(ids.dtype, np.integer):
            return None
        place = np.searchsorted(ids, self.ids)
        known = np.zeros(self.ids.size, dtype=np.bool_)
        inside = place < ids.size
        known[inside] = ids[place[inside]] == self.ids[inside]
        rows = replace(self, unit=place[self.unit].astype(np.int64), ids=ids)
        return rows if known.all() else rows.only(known[self.unit])


def listed_of(requests: Groups, score: Floats) -> Integers:
    """Scored items of each request."""
    missing = np.isnan(score)
    return requests.sums(~missing) if missing.any() else requests.size


def read_rows(
    engine: Engine, source: str, tie: str, request: str, scores: Mapping[str, str]
) -> Rows | None:
    """Fetch the rows of all models.

    Args:
        engine: Where the rows are.
        source: Relation of `unit_id, request_id, item_id, grade`: `candidate_rows`.
        tie: Its column that orders equal scores, the larger first.
        request: Its column that identifies the request; `unit_id` if the log has no requests.
        scores: Model → SQL of its score.

    Returns:
        The rows; None where they cannot be used: the engine has no arrays, ids are not integers,
        an id is missing, an item is repeated in a request, or a request has two units.
    """
    if not isinstance(engine, ArrayEngine) or not scores:
        return None
    types = engine.columns(source)
    if tie not in types or any(types[name] not in INTEGER_TYPES for name in (*_KEYS, request, tie)):
        return None
    keys = list(dict.fromkeys([*_KEYS, request, tie]))
    models = [f"{sql} as m_{i}" for i, sql in enumerate(scores.values())]
    columns = engine.arrays(f"select {', '.join([*keys, 'grade', *models])} from {source}")
    if any(np.ma.is_masked(columns[name]) for name in (*keys, "grade")):
        return None
    ids = {name: _whole(columns[name]) for name in keys}
    ids |= {"tie": ids[tie], "request_id": ids[request]}
    of_models = {model: _floats(columns[f"m_{i}"]) for i, model in enumerate(scores)}
    return _grouped(ids, _floats(columns["grade"]), of_models)


_KEYS = ("unit_id", "item_id")

INTEGER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types of ids that arrays can hold."""


def _whole(column: NDArray[np.generic]) -> Integers:
    return np.ma.getdata(column).astype(np.int64, copy=False)


def _floats(column: NDArray[np.generic]) -> Floats:
    values = np.ma.getdata(column).astype(np.float64, copy=False)
    return (
        np.where(np.ma.getmaskarray(column), np.nan, values) if np.ma.is_masked(column) else values
    )


def _grouped(
    ids: Mapping[str, Integers], grade: Floats, scores: Mapping[str, Floats]
) -> Rows | None:
    requests = Groups.of(ids["request_id"])
    unit, item = requests.sorted(ids["unit_id"]), requests.sorted(ids["item_id"])
    heads = requests.start[:-1]
    first = np.zeros(unit.size, dtype=np.bool_)
    first[heads] = True
    if ((unit[1:] != unit[:-1]) & ~first[1:]).any() or _repeats(requests, item):
        return None
    known, number = np.unique(unit[heads], return_inverse=True)
    return Rows(
        requests=Groups(requests.start),
        unit=number.astype(np.int64),
        tie=requests.sorted(ids["tie"]),
        grade=requests.sorted(grade),
        scores={model: requests.sorted(score) for model, score in scores.items()},
        ids=known,
    )


def _repeats(requests: Groups, item: Integers) -> bool:
    """Whether an item is repeated in a request."""
    for block in requests.blocks():
        items = np.sort(block.matrix(item), axis=1)
        if (items[:, 1:] == items[:, :-1]).any():
            return True
    return False
