"""Make the rows to rank, with each item once per request, and their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import Engine, literal, query, whole, whole_number
from abeval.offline.metrics import Ties
from abeval.offline.rows import Rows
from abeval.results.replay import POOLED
from abeval.stats.records import Bools, Integers

UNIT_GROUPS = 64
"""Groups of units; a jackknife leaves out one at a time."""


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a replay: the jackknife group of each, from 0, and the index of its variant.

    `names` has the variants, ascending, or `all` for units without.
    """

    ids: NDArray[np.generic]
    group: Integers
    names: Sequence[str]
    traffic: Integers

    @classmethod
    def of_one_traffic(cls, ids: NDArray[np.generic]) -> Units:
        """Return units without variants, in groups by their order."""
        order = np.arange(1, ids.size + 1)
        return cls(ids, order % UNIT_GROUPS, ["all"], np.zeros_like(order))

    @cached_property
    def masks(self) -> Mapping[str, Bools]:
        """Return the units of each traffic, and of all of them where there are several.

        Example:
            >>> units = Units(np.array([7, 8]), np.array([0, 1]), ["a", "b"], np.array([1, 0]))
            >>> {name: mask.tolist() for name, mask in units.masks.items()}
            {'a': [False, True], 'b': [True, False], 'pooled': [True, True]}
        """
        every = {POOLED: np.ones(self.ids.size, dtype=np.bool_)} if len(self.names) > 1 else {}
        return {name: self.traffic == i for i, name in enumerate(self.names)} | every


def write_traffic(engine: Engine, sql: str) -> None:
    """Make the view `traffic` of `unit_id, traffic, unit_group`."""
    engine.view("traffic", sql)


def read_units(engine: Engine) -> Units:
    """Read the units of the relation `traffic`."""
    traffics = engine.rows("select distinct traffic from traffic order by 1")
    names = [str(name) for (name,) in traffics]
    cases = " ".join(f"when traffic = {literal(name)} then {i}" for i, name in enumerate(names))
    number = f"case {cases} end" if names else "0"
    sql = f"select unit_id, unit_group, {number} as traffic from traffic order by unit_id"
    columns = engine.arrays(sql)
    ids, group, traffic = (np.asarray(columns[c]) for c in ("unit_id", "unit_group", "traffic"))
    return Units(ids, group.astype(np.int64), names, traffic.astype(np.int64))


def one_traffic(rows: str) -> str:
    """Return SQL of `traffic` for the units of a relation without variants."""
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, 'all' as traffic, {number} % {UNIT_GROUPS} as unit_group "
        f"from (select distinct unit_id from {rows}) as u"
    )


TIE: Mapping[Ties, str] = {
    "item": "item_id",
    "text": "cast(item_id as varchar)",
    "position": "-position",
}
"""SQL that orders equal scores, the larger first."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of every model, as SQL over relations of the engine.

    Attributes:
        sql: Model → SQL of `unit_id, request_id, item_id, score, tie, grade, category`.
        history: SQL of `unit_id, item_id`, one row per item clicked before the period;
            None where unknown.
        catalogue: SQL of `item_id`, items that could be listed besides those that were.
        rows: The same candidates as arrays, for kernels; None where they cannot be used.
        points: Model → SQL of `unit_id, request_id, item_id, score, grade`, a row for each
            impression, which metrics of the scores themselves read. With points all models order
            the same items of a request; without, these metrics read `sql`.
    """

    sql: Mapping[str, str]
    history: str | None = None
    catalogue: str | None = None
    rows: Rows | None = None
    points: Mapping[str, str] = field(default_factory=dict)


def name_rows(engine: Engine, candidates: str, analysed: str) -> None:
    """Make the views `candidate_rows` and `analysed_rows` (those of units that are analysed).

    Columns are `unit_id, request_id, item_id, position, category, grade` and the scores `m_N`.
    """
    engine.view("candidate_rows", candidates)
    engine.view("analysed_rows", analysed)


def write_truth(engine: Engine, sql: str) -> None:
    """Make the view `truth_rows` of `unit_id, request_id, item_id, grade`."""
    engine.view("truth_rows", sql)


def listed_candidates(engine: Engine, number: int, listed: str, tie: str) -> str:
    """Make `judged_N` of the lists of model number N; return SQL of its candidates.

    `listed` is SQL of `request_id, item_id, score, place` (the row's number in the list, or 0 if
    unknown), kept as `listed_rows`; `tie` orders equal scores. `truth_rows` says what is relevant.
    """
    engine.table("listed_rows", listed)
    engine.table(f"judged_{number}", query("offline/judged"))
    return f"select *, {tie} as tie, null as category from judged_{number}"


def write_rows(engine: Engine, *, unique: bool, queried: bool) -> list[tuple[str, int]]:
    """Make `every_row` of `analysed_rows`, and `replay_rows`, with each item once per request.

    Rows that are `unique` have each item once per request already; rows that are `queried` will be
    read several times, and are kept as a table. Return how many rows and requests were left out or
    merged.
    """
    every, once = "select * from analysed_rows", "select * from every_row"
    unkeyed, shared, repeated, scores = 0, 0, 0, list[str]()
    if queried or not unique:
        engine.table("kept_rows", every)
        every = "select * from kept_rows"
    if not unique:
        unkeyed, shared, repeated = (whole_number(engine, sql) for sql in _COUNTS)
        scores = [name for name in engine.columns("kept_rows") if name.startswith("m_")]
    if unkeyed:
        every, once = f"{every} where request_id is not null", f"{once} where item_id is not null"
    if shared:
        key = "cast(unit_id as varchar) || ':' || cast(request_id as varchar) as request_id"
        columns = [key, "unit_id", "item_id", "position", "category", "grade", *scores]
        every = f"select {', '.join(columns)} from ({every}) as r"
    engine.view("every_row", every)
    if repeated:
        best = ["min(position) as position", "min(category) as category"]
        best += [f"max({name}) as {name}" for name in ("grade", *scores)]
        engine.table(
            "replay_once",
            f"select unit_id, request_id, item_id, {', '.join(best)} from ({once}) as r "
            "group by unit_id, request_id, item_id",
        )
        once = "select * from replay_once"
    engine.view("replay_rows", once)
    return [
        ("rows_without_request_or_item", unkeyed),
        ("requests_shared_by_units", shared),
        ("items_repeated_in_a_request", repeated),
    ]


_COUNTS = (
    "select count(*) from kept_rows where request_id is null or item_id is null",
    "select count(*) from (select request_id from kept_rows where request_id is not null "
    "group by request_id having min(unit_id) <> max(unit_id)) as r",
    "select coalesce(sum(n - 1), 0) from (select count(*) as n from kept_rows where "
    "request_id is not null and item_id is not null "
    "group by unit_id, request_id, item_id having count(*) > 1) as d",
)


def shown_candidates(scores: Mapping[str, str], ties: Ties) -> dict[str, str]:
    """Return model → SQL of its candidates, from the SQL of its score over `replay_rows`."""
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, {TIE[ties]} as tie, grade, "
        "category from replay_rows"
        for name, score in scores.items()
    }


def shown_points(scores: Mapping[str, str]) -> dict[str, str]:
    """Return model → SQL of every row that it scores or not, from the SQL of its score."""
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, grade from every_row"
        for name, score in scores.items()
    }


def counted(engine: Engine, sql: str, *names: str) -> list[tuple[str, int]]:
    """Return the numbers of a query's only row, by name."""
    (numbers,) = engine.rows(sql)
    return [(name, whole(number)) for name, number in zip(names, numbers, strict=True)]


def finite_sql(value: str) -> str:
    """Return SQL of a value as a double, null where it is not finite."""
    return f"case when abs(cast({value} as double)) < 1e300 then cast({value} as double) end"
