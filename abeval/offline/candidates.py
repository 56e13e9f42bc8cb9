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
from abeval.offline.expressions import Expression
from abeval.offline.metrics import Ties
from abeval.results.replay import POOLED
from abeval.stats.records import Bools, Integers

# Enough groups for an interval by t, and few enough that sums by item and group stay small.
UNIT_GROUPS = 64
"""Groups of units; a jackknife leaves out one at a time."""

Accounts = list[tuple[str, int]]
"""What was left out or merged, counted."""


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


def write_units(engine: Engine, sql: str) -> Units:
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


def write_cutoff_columns(texts: Iterable[str]) -> list[str]:
    """Write named cut-offs of a row as columns `k_1`, …, which `write_cutoffs` reads."""
    return [f"{write_finite(f'({text})')} as k_{i}" for i, text in enumerate(texts, start=1)]


# Each value is a cut-off of its own in the queries, so time grows with their number.
_MOST_CUTOFFS = 50
"""Metrics of lists are computed at each value of a cut-off."""


def write_cutoffs(
    engine: Engine,
    expressions: Sequence[Expression],
    rows: str,
    request: RequestNumber,
    also: str = "",
) -> dict[int, tuple[int, ...]]:
    """Make `request_cutoffs`, the value of each named cut-off in each request.

    `rows` have `request_id`, as logged, and columns `k_1`, ….

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
        f"r.k_{i} as k from {rows} r {request.join} {also} where r.request_id is not null"
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
    for number, values_of in values_by_number.items():
        if len(values_of) > _MOST_CUTOFFS:
            what = f"k {expressions[-1 - number].name!r} has {len(values_of):,} different values"
            raise LogError(what, f"use at most {_MOST_CUTOFFS}: round it, or cap it")
    return {number: tuple(values_of) for number, values_of in values_by_number.items()}


def write_single_traffic(rows: str, name: str = "all") -> str:
    """Return SQL of `write_units` for the units of a relation without variants."""
    # Units without an experiment have no sub-buckets: they are dealt to groups in turn.
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, {literal(name)} as traffic, {number} % {UNIT_GROUPS} as unit_group "
        f"from (select distinct unit_id from {rows} where unit_id is not null) as u"
    )


@dataclass(frozen=True)
class Candidates:
    """The candidates of every model, as SQL over relations of the engine.

    Attributes:
        sql: Model → SQL of `unit_id, request_id, item_id, score, tie, grade, category, judged`, all
            ids numbers; of equal scores the larger `tie` ranks higher. `judged` is 1 of an item
            whose relevance is known, else 0.
        history: SQL of `unit_id, item_id`, one row per item clicked before the period;
            None where unknown.
        catalogue: SQL of `item_id`, items that could be listed besides those that were.
        points: Model → SQL of `unit_id, request_id, item_id, score, grade`, a row for each
            impression, which metrics of the scores themselves read. With points all models order
            the same items of a request; without, these metrics read `sql`.
    """

    sql: Mapping[str, str]
    history: str | None = None
    catalogue: str | None = None
    points: Mapping[str, str] = field(default_factory=dict)
    cutoffs: Mapping[int, Sequence[int]] = field(default_factory=dict)


class RequestNumber(NamedTuple):
    """Hold SQL of the number of a request in rows `r`, and its join, if it needs one."""

    sql: str
    join: str = ""


class ItemNumber(NamedTuple):
    """Hold SQL of the number of an item in rows `r`, its join, and its tie.

    `tie` orders equal scores.
    """

    sql: str
    join: str
    tie: str


WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types of ids that stand for themselves; other ids are numbered."""

_FITS = 2**31
"""Whole numbers below it, and from its negative on, have 32 bits."""


def _narrow_ids(engine: Engine, column: str, relation: str) -> str:
    """Write a column `r.id` of whole numbers in 32 bits, if a relation has no larger ones.

    They are ranked in half the time. Larger ids of other rows, which meet none of these, are null.
    """
    name = column.partition(".")[2]
    ((low, high),) = engine.rows(f"select min({name}), max({name}) from {relation}")
    is_narrow = read_int(low) >= -_FITS and read_int(high) < _FITS
    return f"try_cast({column} as integer)" if is_narrow else column


def keep_units(engine: Engine, rows: str) -> None:
    """Make `kept_rows`, the rows of units, with `unit_id` the number of the unit."""
    others = ", ".join(f"r.{name}" for name in engine.columns(rows) if name != "unit_id")
    # A table, because counts, numbers of ids and the rows to rank all read it.
    engine.table(
        "kept_rows",
        f"select t.unit_id, {others} from {rows} r join traffic t on r.unit_id = t.named_id",
    )


def name_rows(engine: Engine, sql: str) -> None:
    """Make `candidate_rows`, with ids as logged.

    Other columns are `grade`, scores `m_N` and, if they are known or read, `position`, `category`.
    """
    engine.view("candidate_rows", sql)


def write_truth(engine: Engine, sql: str) -> None:
    """Make the view `truth_rows`, with each item once.

    Its columns are `unit_id, request_id, item_id, grade`.
    """
    engine.view("truth_rows", sql)


def number_requests(
    engine: Engine, rows: str, keyed: str, *, are_shared: bool = False
) -> RequestNumber:
    """Number the requests of a relation.

    `keyed` is SQL of its `unit_id, request_id` that has both ids once.
    """
    # Whole numbers stand for themselves, because numbering takes a join over all rows. Requests
    # that units share need a number for each unit, so that their lists stay apart.
    if engine.columns(rows)["request_id"] in WHOLE_TYPES and not are_shared:
        return RequestNumber(_narrow_ids(engine, "r.request_id", rows))
    engine.view("keyed_requests", keyed)
    engine.table("request_numbers", query("offline/request_numbers"))
    number = _narrow_ids(engine, "q.number", "request_numbers")
    return RequestNumber(number, "join request_numbers q on r.request_id = q.request_id")


def number_items(engine: Engine, sources: Sequence[str], ties: Ties) -> ItemNumber:
    """Number the items of SQL with `item_id`; whole numbers stand for themselves."""
    every = " union all ".join(f"select item_id from ({sql}) as s" for sql in sources)
    engine.view("item_ids", every)
    is_whole = engine.columns("item_ids")["item_id"] in WHOLE_TYPES
    # Ties by text need the place of each item among the texts, even where ids are numbers.
    if is_whole and ties != "text":
        number, join = _narrow_ids(engine, "r.item_id", "item_ids"), ""
    else:
        engine.table("item_numbers", query("offline/item_numbers"))
        number = _narrow_ids(engine, "i.number", "item_numbers")
        # A left join keeps rows without an item: metrics of the scores themselves read them.
        join = "left join item_numbers i on r.item_id = i.item_id"
    # The larger tie ranks higher, so the first position must be the largest number.
    tie = {"item": number, "text": "i.text_place", "position": "-r.position"}[ties]
    return ItemNumber(number, join, tie)


def number_sources(sources: Mapping[str, str], item: ItemNumber) -> dict[str, str]:
    """Give SQL of `unit_id, item_id`, or of `item_id` alone, the numbers of items.

    Both `sources` and the result are SQL by name.
    """
    return {
        name: f"select {'r.unit_id, ' if 'unit_id' in sql else ''}{item.sql} as item_id "
        f"from ({sql}) as r {item.join}"
        for name, sql in sources.items()
    }


class Rows(NamedTuple):
    """Hold how rows are numbered, what was left out, and named cut-offs."""

    request: RequestNumber
    item: ItemNumber
    accounts: Accounts
    cutoffs: Mapping[int, Sequence[int]]


def write_rows(
    engine: Engine, other_items: Sequence[str], ties: Ties, cutoffs: Sequence[Expression] = ()
) -> Rows:
    """Make `every_row` of `candidate_rows`, and `replay_rows` with each item once.

    Rows are those of the units, with numbers for ids, and a `tie`. `other_items` is SQL of
    `item_id` that needs numbers too.
    """
    keep_units(engine, "candidate_rows")
    columns = [*engine.columns("candidate_rows")]
    unkeyed, shared = (fetch_int(engine, sql) for sql in _COUNTS)
    request = number_requests(engine, "kept_rows", _KEYED, are_shared=shared > 0)
    # A request that units share has a number for each of them, so the join needs both ids.
    same_unit = "and r.unit_id = q.unit_id" if request.join else ""
    item = number_items(engine, ["select item_id from kept_rows", *other_items], ties)
    scores = [name for name in columns if name.startswith("m_")]
    row_scores = ", ".join(f"r.{name}" for name in scores)
    category = "r.category" if "category" in columns else "cast(null as varchar)"
    # Joins are run once; without them, a view costs nothing, as it only renames columns.
    write = engine.table if request.join or item.join else engine.view
    write(
        "every_row",
        f"select r.unit_id, {request.sql} as request_id, {item.sql} as item_id, "
        f"{item.tie} as tie, {category} as category, r.grade, {row_scores} "
        f"from kept_rows r {request.join} {same_unit} {item.join} where r.request_id is not null",
    )
    once = "select * from every_row" + (" where item_id is not null" if unkeyed else "")
    # An item is clicked if one of its rows is, and its best score is where a model ranks it.
    best = ["max(tie) as tie", "min(category) as category"]
    best += [f"max({name}) as {name}" for name in ("grade", *scores)]
    keys = "unit_id, request_id, item_id"
    repeated = merge_repeated(engine, "replay_rows", once, keys, best)
    accounts = [
        ("rows_without_request_or_item", unkeyed),
        ("requests_shared_by_units", shared),
        ("items_repeated_in_a_request", repeated),
    ]
    cutoff_values = write_cutoffs(engine, cutoffs, "kept_rows", request, same_unit)
    return Rows(request, item, accounts, cutoff_values)


def merge_repeated(engine: Engine, name: str, sql: str, keys: str, best: Sequence[str]) -> int:
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


_KEYED = "select distinct unit_id, request_id from kept_rows where request_id is not null"

_COUNTS = (
    "select count(*) from kept_rows where request_id is null or item_id is null",
    # The least and the largest unit tell the same as a count of distinct ones, but faster.
    "select count(*) from (select request_id from kept_rows where request_id is not null "
    "group by request_id having min(unit_id) <> max(unit_id)) as r",
)


def write_shown_candidates(scores: Mapping[str, str]) -> dict[str, str]:
    """Return SQL of each model's candidates.

    `scores` are SQL over `replay_rows`, by model.
    """
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, tie, grade, category, "
        # Items that were shown could be clicked, so their relevance is known.
        "1 as judged from replay_rows"
        for name, score in scores.items()
    }


def write_shown_points(scores: Mapping[str, str]) -> dict[str, str]:
    """Return SQL of each model's rows, scored or not.

    `scores` are SQL over `every_row`, by model.
    """
    return {
        name: f"select unit_id, request_id, item_id, {score} as score, grade from every_row"
        for name, score in scores.items()
    }


def write_listed_candidates(
    engine: Engine, number: int, list_sql: str, request: RequestNumber, item: ItemNumber
) -> tuple[str, int]:
    """Make `judged_N`, the lists of model number N against `truth_rows`.

    `list_sql` is SQL of `request_id, item_id, score, position` (a row's number in the list, or
    null); an item listed twice keeps its best score and first position, in `listed_once`.

    Returns:
        SQL of the candidates, and how many rows repeat another.
    """
    engine.view("list_rows", list_sql)
    # An item has one place in a list: the best that the model gave it.
    best = ["max(score) as score", "min(position) as position"]
    keys, rows = "request_id, item_id", "select * from list_rows"
    repeated = merge_repeated(engine, "listed_once", rows, keys, best)
    # A list's ids may be of another type than the truth's: 2.6 is not request 3.
    is_whole = engine.columns("list_rows")["request_id"] in WHOLE_TYPES
    request_id = request.sql if request.join or is_whole else "r.request_id"
    engine.view(
        "listed_rows",
        f"select {request_id} as request_id, {item.sql} as item_id, r.score, {item.tie} as tie "
        f"from listed_once r {request.join} {item.join}",
    )
    engine.table(f"judged_{number}", query("offline/judged"))
    # Lists have no categories: a column of nulls would take as long to write as one of texts.
    return f"select *, cast(null as varchar) as category from judged_{number}", repeated


def read_counts(engine: Engine, sql: str, *names: str) -> Accounts:
    """Return the numbers of a query's only row, by name."""
    (numbers,) = engine.rows(sql)
    return [(name, read_int(number)) for name, number in zip(names, numbers, strict=True)]


def write_finite(value: str) -> str:
    """Return SQL of a value as a double, null where it is not finite."""
    # One comparison leaves out NaN and both infinities: the engine puts NaN above every number.
    return f"case when abs(cast({value} as double)) < 1e300 then cast({value} as double) end"
