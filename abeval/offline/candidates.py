"""Make the rows to rank: narrow, with units, requests and items as whole numbers.

Each item is in a request once, and the rows of units are numbered from 0 by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.bounds import MAX_CUTOFF
from abeval.engines.sql import (
    Engine,
    count_rows,
    fetch_int,
    literal,
    query,
    read_int,
    write_index,
)
from abeval.errors import LogError
from abeval.offline.expressions import Expression, check_part, explain_failures
from abeval.offline.metrics import Scoring, Ties
from abeval.results.replay import POOLED
from abeval.stats.records import Bools, Integers

# Enough groups for an interval by t, and few enough that sums by item and group stay small.
UNIT_GROUPS = 64
"""Groups of units; a jackknife leaves out one at a time."""


@dataclass(frozen=True, eq=False)
class Units:
    """Hold the units of a replay, with the group and the variant of each.

    `group` is that of the jackknife, from 0; `traffic` is the index of the variant.

    `names` has the variants, ascending, or `all` for units without. Rows have the index of a unit
    in place of its id.
    """

    ids: NDArray[np.generic]
    group: Integers
    names: Sequence[str]
    traffic: Integers

    @cached_property
    def masks(self) -> Mapping[str, Bools]:
        """Return the units of each traffic, and of all of them where there are several.

        Example:
            >>> units = Units(np.array([7, 8]), np.array([0, 1]), ["a", "b"], np.array([1, 0]))
            >>> {name: mask.tolist() for name, mask in units.masks.items()}
            {'a': [False, True], 'b': [True, False], 'pooled': [True, True]}
        """
        # With one traffic, the pooled rows would only repeat it.
        every = {POOLED: np.ones(self.ids.size, dtype=np.bool_)} if len(self.names) > 1 else {}
        return {name: self.traffic == i for i, name in enumerate(self.names)} | every


@dataclass(frozen=True)
class JudgedLog:
    """Judged rows of units, and the models that rank them: SQL with ids as logged.

    Attributes:
        rows: SQL of `unit_id, request_id, item_id, grade`, scores `m_N`, cut-offs `k_N`, and
            `position` and `category` if they are known or read.
        units: SQL of `unit_id, traffic, unit_group`, which may read the rows as `candidate_rows`.
        nothing: What is wrong, and what to do, if there is no unit.
        counts: What is counted of the rows: name → SQL.
        scores: Model → SQL of its score over the columns `m_N`.
        lists: Model → SQL of `request_id, item_id, score, position` (a row's number in the list, or
            null). An item that is listed twice keeps its best score and first position.
        list_counts: The same of each list, over `list_rows`, `listed_once`, `kept_rows`, `judged`.
        history: SQL of `unit_id, item_id`, one row per item clicked before the period.
        catalogue: SQL of `item_id`, items that could be listed besides those that were.
        vectors: SQL of `item_id, dimension, value`, of vectors of length one.
        keeps_requests: Whether a request of which no row has an item is judged too: nothing is
            relevant to it.
    """

    rows: str
    units: str
    nothing: tuple[str, str]
    counts: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)
    list_counts: Mapping[str, str] = field(default_factory=dict)
    history: str | None = None
    catalogue: str | None = None
    vectors: str | None = None
    keeps_requests: bool = False


@dataclass(frozen=True)
class Candidates:
    """The candidates of every model, as SQL over relations of the engine.

    All ids are numbers.

    Attributes:
        units: The units of the rows.
        sql: Model → SQL of `unit_id, request_id, item_id, score, tie, grade, category, judged`; of
            equal scores the larger `tie` ranks higher. `judged` is 1 of an item whose relevance is
            known, else 0.
        points: Model → SQL of `unit_id, request_id, item_id, score, grade`, a row for each
            impression, which metrics of the scores themselves read. With points all models order
            the same items of a request; without, these metrics read `sql`.
        history: That of the log; None where unknown. So is `catalogue`.
        cutoffs: The number of each named cut-off, which is negative, with its values.
        accounts: What was left out or merged, counted.
    """

    units: Units
    sql: Mapping[str, str]
    points: Mapping[str, str]
    history: str | None
    catalogue: str | None
    cutoffs: Mapping[int, Sequence[int]]
    accounts: Mapping[str, int]


class IdNumber(NamedTuple):
    """Hold SQL of the number of an id in rows `r`, and its join, if it needs one."""

    sql: str
    join: str = ""


WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types of ids that stand for themselves; other ids are numbered."""

_FITS = 2**31
"""Whole numbers below it, and from its negative on, have 32 bits."""

ROW_COUNTS: Mapping[str, str] = {
    "rows_without_request_or_item": "select count(*) from kept_rows "
    "where request_id is null or item_id is null",
    # The least and the largest unit tell the same as a count of distinct ones, but faster.
    "requests_shared_by_units": "select count(*) from (select request_id from kept_rows "
    "where request_id is not null group by request_id having min(unit_id) <> max(unit_id)) as r",
}
"""What is counted of the rows of every log."""

REPEATED = "items_repeated_in_a_request"
"""The account of rows that repeat another."""


def write_candidates(
    engine: Engine, log: JudgedLog, scoring: Scoring, part: Expression | None
) -> Candidates:
    """Make the rows to rank of a log, or of a part of it.

    Raises:
        LogError: There is no unit, or a cut-off is no whole number of a request.
    """
    with explain_failures(part, scoring.cutoffs):
        engine.view("candidate_rows", log.rows)
        units = _write_units(engine, log.units)
        check_part(part, len(units.ids))
        if not len(units.ids):
            raise LogError(*log.nothing)
        columns = [name for name in engine.columns("candidate_rows") if name != "unit_id"]
        # A table, because counts, numbers of ids and the rows to rank all read it.
        engine.table(
            "kept_rows",
            f"select t.unit_id, {', '.join(f'r.{name}' for name in columns)} "
            "from candidate_rows r join traffic t on r.unit_id = t.named_id",
        )
        counts = _count(engine, ROW_COUNTS)
        unkeyed, shared = counts.values()
        request = _number_requests(engine, are_shared=shared > 0)
        sources = [*log.lists.values(), *filter(None, (log.history, log.catalogue))]
        item, tie = _number_items(engine, sources, scoring.policy.ties)
        has_null_ids = unkeyed > 0 and not log.keeps_requests
        repeated = _write_rows(engine, columns, request, item, tie, has_null_ids=has_null_ids)
        cutoffs = _write_cutoffs(engine, scoring.cutoffs, request)
    accounts = {**_count(engine, log.counts), **counts, REPEATED: repeated}
    if log.vectors is not None:
        accounts["rows_of_items_without_a_vector"] = _number_vectors(engine, log.vectors, item)
    shown = "select unit_id, request_id, item_id, {} as score"
    sql = {
        # Items that were shown could be clicked, so their relevance is known.
        model: f"{shown.format(score)}, tie, grade, category, 1 as judged from replay_rows"
        for model, score in log.scores.items()
    }
    for number, (model, list_sql) in enumerate(log.lists.items()):
        sql[model] = _write_list(engine, number, list_sql, request, item, tie)
        accounts |= _count(engine, {f"{model}: {n}": c for n, c in log.list_counts.items()})
    # Lists have one score for an item of a request; so have all models, beside them.
    of_rows = {} if log.lists else log.scores
    return Candidates(
        units=units,
        sql=sql,
        points={m: f"{shown.format(score)}, grade from every_row" for m, score in of_rows.items()},
        history=log.history and _write_numbered("r.unit_id, ", log.history, item),
        catalogue=log.catalogue and _write_numbered("", log.catalogue, item),
        cutoffs=cutoffs,
        accounts=accounts,
    )


def _count(engine: Engine, counts: Mapping[str, str]) -> dict[str, int]:
    """Fetch numbers of which each has its SQL."""
    if not counts:
        return {}
    (row,) = engine.rows(f"select {', '.join(f'({sql})' for sql in counts.values())}")
    return dict(zip(counts, map(read_int, row), strict=True))


def _write_units(engine: Engine, sql: str) -> Units:
    """Number the units of SQL of `unit_id, traffic, unit_group`, and return them.

    They become the table `traffic` (`named_id`, the unit's id; `unit_id`, its number from 0;
    `traffic`, the index of its variant; `unit_group`).
    """
    engine.table("named_units", sql)
    traffics = engine.rows("select distinct traffic from named_units order by 1")
    names = [str(name) for (name,) in traffics]
    # Without any unit there is no name to index, but the SQL must be valid.
    number = write_index("traffic", names) if names else "0"
    # Tables, because views would find and number the units again on each read.
    engine.table(
        "traffic",
        "select unit_id as named_id, "
        "cast(row_number() over (order by unit_id) - 1 as integer) as unit_id, "
        f"cast({number} as integer) as traffic, cast(unit_group as integer) as unit_group "
        "from named_units",
    )
    columns = engine.arrays("select * from traffic order by unit_id")
    ids, group, traffic = (np.asarray(columns[c]) for c in ("named_id", "unit_group", "traffic"))
    return Units(ids, group.astype(np.int64), names, traffic.astype(np.int64))


def write_single_traffic(part: Expression | None) -> str:
    """Return SQL of the units of `candidate_rows`, of one traffic: all, or a part."""
    # Units without an experiment have no sub-buckets: they are dealt to groups in turn.
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, {literal(part.name if part else 'all')} as traffic, "
        f"{number} % {UNIT_GROUPS} as unit_group "
        "from (select distinct unit_id from candidate_rows where unit_id is not null) as u"
    )


def _narrow_ids(engine: Engine, column: str, relation: str) -> str:
    """Write a column `r.id` of whole numbers in 32 bits, if the relation's ids fit.

    Ids of 32 bits are ranked in half the time. Larger ids of other rows, which meet none of these,
    are null.
    """
    name = column.partition(".")[2]
    ((low, high),) = engine.rows(f"select min({name}), max({name}) from {relation}")
    is_narrow = read_int(low) >= -_FITS and read_int(high) < _FITS
    return f"try_cast({column} as integer)" if is_narrow else column


def _number_requests(engine: Engine, *, are_shared: bool) -> IdNumber:
    """Number the requests of `kept_rows`."""
    # Whole numbers stand for themselves, because numbering takes a join over all rows. Requests
    # that units share need a number for each unit, so that their lists stay apart.
    if engine.columns("kept_rows")["request_id"] in WHOLE_TYPES and not are_shared:
        return IdNumber(_narrow_ids(engine, "r.request_id", "kept_rows"))
    engine.table("request_numbers", query("offline/request_numbers"))
    number = _narrow_ids(engine, "q.number", "request_numbers")
    return IdNumber(number, "join request_numbers q on r.request_id = q.request_id")


def _number_items(engine: Engine, sources: Sequence[str], ties: Ties) -> tuple[IdNumber, str]:
    """Number the items of `kept_rows` and of SQL with `item_id`.

    An id that is a whole number is its own number, unless ties are by text. Return the number, and
    the tie, which orders equal scores.
    """
    every = " union all ".join(f"select item_id from ({sql}) as s" for sql in sources)
    kept = "select item_id from kept_rows" + (every and f" union all {every}")
    engine.view("item_ids", kept)
    is_whole = engine.columns("item_ids")["item_id"] in WHOLE_TYPES
    # Ties by text need the place of each item among the texts, even where ids are numbers.
    if is_whole and ties != "text":
        item = IdNumber(_narrow_ids(engine, "r.item_id", "item_ids"))
    else:
        engine.table("item_numbers", query("offline/item_numbers"))
        number = _narrow_ids(engine, "i.number", "item_numbers")
        # A left join keeps rows without an item: metrics of the scores themselves read them.
        item = IdNumber(number, "left join item_numbers i on r.item_id = i.item_id")
    # The larger tie ranks higher, so the first position must be the largest number.
    return item, {"item": item.sql, "text": "i.text_place", "position": "-r.position"}[ties]


def _write_numbered(columns: str, sql: str, item: IdNumber) -> str:
    """Write SQL with `item_id` with the numbers of items."""
    return f"select {columns}{item.sql} as item_id from ({sql}) as r {item.join}"


def _number_vectors(engine: Engine, vectors: str, item: IdNumber) -> int:
    """Make `item_dimensions`; count the rows of `kept_rows` whose item has no vector."""
    engine.view(
        "item_dimensions",
        f"select {item.sql} as item_id, r.dimension, r.value from ({vectors}) as r {item.join}",
    )
    return fetch_int(
        engine,
        f"select count(*) from kept_rows r anti join ({vectors}) as d "
        "on r.item_id = d.item_id where r.item_id is not null",
    )


def _write_rows(
    engine: Engine,
    columns: Sequence[str],
    request: IdNumber,
    item: IdNumber,
    tie: str,
    *,
    has_null_ids: bool,
) -> int:
    """Make `every_row` and `replay_rows` of `kept_rows`, with numbers for ids.

    `replay_rows` has each item of a request once. Return how many rows repeat another.
    """
    scores = [name for name in columns if name.startswith("m_")]
    category = "r.category" if "category" in columns else "cast(null as varchar)"
    selected = [f"{category} as category", *(f"r.{name}" for name in ("grade", *scores))]
    # Joins are run once; without them, a view costs nothing, as it only renames columns.
    write = engine.table if request.join or item.join else engine.view
    write(
        "every_row",
        f"select r.unit_id, {request.sql} as request_id, {item.sql} as item_id, {tie} as tie, "
        f"{', '.join(selected)} from kept_rows r {request.join} {_same_unit(request)} {item.join} "
        "where r.request_id is not null",
    )
    once = "select * from every_row" + (" where item_id is not null" if has_null_ids else "")
    # An item is clicked if one of its rows is, and its best score is where a model ranks it.
    best = ["max(tie) as tie", "min(category) as category"]
    best += [f"max({name}) as {name}" for name in ("grade", *scores)]
    return _merge_repeated(engine, "replay_rows", once, "unit_id, request_id, item_id", best)


def _same_unit(request: IdNumber) -> str:
    """Write that a joined request number is of the row's unit.

    A request that several units share has a number for each unit.
    """
    return "and r.unit_id = q.unit_id" if request.join else ""


def _merge_repeated(engine: Engine, name: str, sql: str, keys: str, best: Sequence[str]) -> int:
    """Make `name`, the rows of SQL with each item of a request once.

    Its columns are `keys`, then `best`, as in the SQL. Missing ids count as equal. Returns how
    many rows repeat another.
    """
    # One sort: grouping all rows takes twice as long, so only those of repeated items are merged.
    number = "row_number() over (partition by request_id, item_id order by item_id nulls last)"
    engine.table(
        "repeated_items",
        "select request_id, item_id from "
        f"(select request_id, item_id, {number} as n from ({sql}) as r) as r where n > 1",
    )
    repeated = count_rows(engine, "repeated_items")
    if not repeated:
        engine.view(name, sql)
        return 0
    same = " and ".join(f"r.{c} is not distinct from d.{c}" for c in ("request_id", "item_id"))
    engine.table(
        name,
        f"select r.* from ({sql}) as r anti join repeated_items d on {same} union all "
        f"select {keys}, {', '.join(best)} from ({sql}) as r "
        f"semi join repeated_items d on {same} group by {keys}",
    )
    return repeated


def _write_list(
    engine: Engine, number: int, list_sql: str, request: IdNumber, item: IdNumber, tie: str
) -> str:
    """Make `judged_N`, the lists of model number N against `replay_rows`.

    Return SQL that reads `judged_N`.
    """
    engine.view("list_rows", list_sql)
    # An item has one place in a list: the best that the model gave it.
    best = ["max(score) as score", "min(position) as position"]
    rows = "select request_id, item_id, score, position from list_rows"
    _merge_repeated(engine, "listed_once", rows, "request_id, item_id", best)
    # A list's ids may be of another type than the truth's: 2.6 is not request 3.
    is_whole = engine.columns("list_rows")["request_id"] in WHOLE_TYPES
    request_id = request.sql if request.join or is_whole else "r.request_id"
    engine.view(
        "listed_rows",
        f"select {request_id} as request_id, {item.sql} as item_id, r.score, {tie} as tie "
        f"from listed_once r {request.join} {item.join}",
    )
    engine.table(f"judged_{number}", query("offline/judged"))
    engine.view("judged", f"select * from judged_{number}")
    # Lists have no categories: a column of nulls would take as long to write as one of texts.
    return f"select *, cast(null as varchar) as category from judged_{number}"


def write_cutoff_columns(texts: Iterable[str]) -> list[str]:
    """Write named cut-offs of a row as columns `k_1`, … for `write_candidates`."""
    return [f"{write_finite(f'({text})')} as k_{i}" for i, text in enumerate(texts, start=1)]


# Each value is a cut-off of its own in the queries, so time grows with their number.
_MOST_CUTOFFS = 50
"""Metrics of lists are computed at each value of a cut-off."""


def _write_cutoffs(
    engine: Engine, expressions: Sequence[Expression], request: IdNumber
) -> dict[int, list[int]]:
    """Make `request_cutoffs`, the named cut-offs of each request of `kept_rows`.

    Returns:
        The number of each cut-off, which is negative, with its values.

    Raises:
        LogError: A cut-off is no whole number, or is not the same in all rows of a request.
    """
    if not expressions:
        return {}
    # Names get negative numbers, which no cut-off that is a number can be.
    selects = [
        f"select {request.sql} as request_id, r.request_id as named_request, {-i} as cutoff, "
        f"r.k_{i} as k from kept_rows r {request.join} {_same_unit(request)} "
        "where r.request_id is not null"
        for i in range(1, len(expressions) + 1)
    ]
    engine.view("cutoff_rows", " union all ".join(selects))
    engine.table("request_cutoffs", query("offline/request_cutoffs"))
    wrong = engine.rows(
        "select cutoff, named_request, k, largest, rows_without from request_cutoffs "
        # Descending, because the first name has the number -1: its fault is told first.
        f"where rows_without > 0 or k <> largest or k < 1 or k > {MAX_CUTOFF} or k <> floor(k) "
        "order by 1 desc, 2 limit 1"
    )
    for number, request_name, low, high, without in wrong:
        name, text = expressions[-1 - read_int(number)]
        values = [f"{value:g}" for value in dict.fromkeys((low, high)) if value is not None]
        description = " to ".join(values) + (" and null" if values else "null") * bool(without)
        what = f"k {name!r}: {text!r} is {description} in request {request_name!r}"
        raise LogError(what, "a cut-off is one whole number from 1 in all rows of a request")
    values_by_number: dict[int, list[int]] = {-1 - i: [] for i in range(len(expressions))}
    for number, k in engine.rows("select distinct cutoff, k from request_cutoffs order by 1, 2"):
        values_by_number[read_int(number)].append(read_int(k))
    for number, cutoff_values in values_by_number.items():
        if len(cutoff_values) > _MOST_CUTOFFS:
            count = f"{len(cutoff_values):,}"
            what = f"k {expressions[-1 - number].name!r} has {count} different values"
            raise LogError(what, f"use at most {_MOST_CUTOFFS}: round it, or cap it")
    return values_by_number


def write_finite(value: str) -> str:
    """Return SQL of a value as a double, null where it is not finite."""
    # One comparison leaves out NaN and both infinities: the engine puts NaN above every number.
    return f"case when abs(cast({value} as double)) < 1e300 then cast({value} as double) end"
