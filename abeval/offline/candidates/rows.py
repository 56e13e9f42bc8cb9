"""Candidates as arrays, for kernels: used when ids are integers and no item repeats in a request.

`offline/replay_run.py` and `offline/evaluate_log.py` read them from the view `candidate_rows`;
`offline/sums/run.py` hands them to the kernels. Without them, queries compute the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine, Engine, row_count
from abeval.offline.rows import Groups, starts
from abeval.stats.records import Bools, Floats, Integers


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
    grade: NDArray[np.int64 | np.float64]
    scores: Mapping[str, Floats]
    ids: NDArray[np.generic]

    @property
    def units(self) -> int:
        """Number of units."""
        return self.ids.size

    @cached_property
    def is_relevant(self) -> Bools:
        """Whether each row is relevant."""
        return np.asarray(self.grade > 0)

    @cached_property
    def grades(self) -> NDArray[np.int64 | np.float64]:
        """Relevance of the relevant rows."""
        return self.grade[np.flatnonzero(self.is_relevant)]

    @cached_property
    def relevant(self) -> Integers:
        """Relevant items of each request."""
        return self.requests.sums(self.is_relevant)

    @cached_property
    def listed(self) -> Mapping[str, Integers]:
        """Model → scored items of each request."""
        return {model: scored(self.requests, score) for model, score in self.scores.items()}

    @cached_property
    def is_binary(self) -> bool:
        """Whether all relevant items have the same grade."""
        return not self.grades.size or bool(self.grades.min() == self.grades.max())

    @cached_property
    def longest(self) -> int:
        """Number of items in the longest request that has a relevant one."""
        return int(self.requests.size[self.relevant > 0].max(initial=0))

    @cached_property
    def by_unit(self) -> tuple[Groups, Integers]:
        """The rows of each unit, and the index of the unit; `requests` if each unit has one."""
        if np.bincount(self.unit, minlength=1).max() <= 1:
            return self.requests, self.unit
        unit = np.repeat(self.unit, self.requests.size)
        groups = Groups.of(unit)
        return groups, groups.sorted(unit)[groups.start[:-1]]

    def uncompared(self) -> Bools:
        """Requests that some models score and others do not (`uncompared.sql`)."""
        listed = [items > 0 for items in self.listed.values()]
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
        row = np.repeat(kept, self.requests.size)
        return replace(
            self,
            requests=Groups(start),
            unit=self.unit[kept],
            tie=self.tie[row],
            grade=self.grade[row],
            scores={model: score[row] for model, score in self.scores.items()},
        )

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


def scored(groups: Groups, score: Floats) -> Integers:
    """Rows of each group that have a score."""
    missing = np.isnan(score)
    return groups.sums(~missing) if missing.any() else groups.size


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
    columns = _fetched(engine, source, [*keys, "grade"], list(scores.values()))
    if columns is None:
        return None
    requests = Groups.of(columns[request])
    of = {name: requests.sorted(column) for name, column in columns.items()}
    unit = of["unit_id"]
    several = request != "unit_id" and not np.isin(starts(unit), requests.start).all()
    if several or _repeats(requests, of["item_id"]):
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
    """Columns by name and scores as `m_N`, NaN where missing; None if a column lacks a value."""
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


def _repeats(requests: Groups, item: NDArray[np.generic]) -> bool:
    """Whether an item is repeated in a request."""
    for block in requests.blocks():
        items = np.sort(block.matrix(item), axis=1)
        if (items[:, 1:] == items[:, :-1]).any():
            return True
    return False
