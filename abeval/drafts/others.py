"""Guess what the tables of several are: the impressions, their clicks, items, units, events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from abeval.drafts import words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import (
    canonical_guesses,
    is_of_unit,
    time_guess,
    time_unit,
    unit_guess,
    value_guesses,
    variant_candidates,
    variant_of,
)
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.sources import CANONICAL_COLUMNS

Kind = Literal["items", "clicks", "exposures", "units", "events"]

JOINED = 0.5
"""Share of a table's rows, or units, that are those of the main table, from which on they join."""

_JOINS = (("impression_id",), ("request_id", "item_id"), ("unit_id", "item_id"))
"""What can tie a click to its impression, best first; a unit and its item need times too."""


@dataclass(frozen=True)
class Other:
    """A table beside the main one.

    Attributes:
        kind: What it is; None where that is not clear, and it is not used.
        columns: Entries of its log → its columns: `unit_id`, `ts`, `variant`.
        outcomes: Its columns that are sums of a unit.
        join: What ties clicks to impressions, where the experiment file has to say it.
        casts: Columns → types, where the same ids are text in one log and numbers in the other.
        reason: Why it is of this kind, or is not used.
        question: What a person has to say of it; empty where it is plain.
    """

    table: Table
    kind: Kind | None
    columns: Mapping[str, Column] = field(default_factory=dict)
    outcomes: tuple[Column, ...] = ()
    join: tuple[str, ...] = ()
    casts: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    question: str = ""


def main_table(engine: Engine, tables: Sequence[Table], names: Mapping[str, str]) -> Table:
    """Choose the impressions by their name, or the table that has unit and variant, the longest.

    Who is in which variant is not the main table where another says what units saw or did.
    """

    def rank(table: Table) -> tuple[int, bool, int]:
        is_of_units = unit_guess(table).column is not None
        shown = says_shown(names[table.relation]) if is_of_units else 0
        return shown, variant_of(engine, table, False).column is not None, table.rows

    first, *rest = sorted(tables, key=rank, reverse=True)
    if not rest or not places_units(engine, first):
        return first
    rows = (t for t in rest if shows_rows(t) and not _is_event(names[t.relation], t))
    return next(rows, first)


def says_shown(name: str) -> int:
    """Say how well a name says that rows are what units saw; 0 where it does not."""
    listed = words.SHOWN[::-1]
    return max((listed.index(word) + 1 for word in words.words(name) if word in listed), default=0)


def says_other(name: str) -> bool:
    """Say whether a name says that rows are what units did."""
    return words.has_word(name, (*words.CLICKS, *words.OUTCOME, *words.EVENTS))


def places_units(engine: Engine, table: Table) -> bool:
    """Say whether a table has who was in which variant, and nothing that they saw or did."""
    unit, time = unit_guess(table).column, time_guess(table).column
    if unit is None or variant_of(engine, table, False).column is None:
        return False
    if unit.distinct == table.rows:
        return not shows_rows(table)
    names = {column.name for column in (unit, time, *variant_candidates(table)) if column}
    return time is not None and all(column.name in names for column in table.columns)


def shows_rows(table: Table) -> bool:
    """Say whether a table has a unit, and clicks, items or positions."""
    return unit_guess(table).column is not None and bool(_canonical(table))


def others_of(
    engine: Engine, tables: Sequence[Table], main: Table, names: Mapping[str, str]
) -> tuple[Other, ...]:
    """Guess what the tables beside the main one are; each kind but events once."""
    others: dict[str, Other] = {}
    own = _entries(main)
    named = sorted(tables, key=lambda table: not _says_clicks(names[table.relation]))
    for table in named:
        name = names[table.relation]
        kinds = {other.kind for other in others.values()} - {"events"}
        readings = (
            _items(engine, table, main, own),
            _clicks(engine, table, main, own, name),
            _of_units(engine, table, main, own),
        )
        none = Other(table, None, reason="another file has these already")
        other = next((one for one in readings if one and one.kind not in kinds), none)
        if other.kind == "events" and _says_clicks(name):
            other = replace(other, question=_no_clicks(engine, table, main, own))
        others[table.relation] = other
    return tuple(others[table.relation] for table in tables)


def _entries(table: Table) -> dict[str, Column]:
    """Return entry → column of a log of impressions or clicks."""
    columns = {"unit_id": unit_guess(table).column, "ts": time_guess(table).column}
    return {entry: c for entry, c in columns.items() if c is not None} | _canonical(table)


def _canonical(table: Table) -> dict[str, Column]:
    unit = unit_guess(table).column
    taken = set() if unit is None else {unit.name}
    guesses = canonical_guesses(table, taken)
    return {one.entry: one.column for one in guesses if one.column is not None}


def _items(engine: Engine, table: Table, main: Table, own: Mapping[str, Column]) -> Other | None:
    """Guess that each row is an item of the impressions."""
    columns = {**_canonical(table)}
    item = columns.get("item_id")
    if item is None or item.distinct < item.rows or item.rows < table.rows or "item_id" not in own:
        return None
    is_of_unit = unit_guess(table).column is not None and time_guess(table).column is not None
    if is_of_unit or _share(engine, (main, own["item_id"]), (table, item)) < JOINED:
        return None
    columns = {entry: columns[entry] for entry in ("item_id", "category") if entry in columns}
    return Other(table, "items", columns, casts=_casts(columns, own), reason="a row an item")


def _clicks(
    engine: Engine, table: Table, main: Table, own: Mapping[str, Column], name: str
) -> Other | None:
    """Guess that rows are clicks: most of them follow an impression of the same keys."""
    if table.rows > main.rows or (not _says_clicks(name) and _is_event(name, table)):
        return None
    columns = _entries(table)
    for join in _joins(columns, own):
        known, after, soon = _followed(engine, (table, columns), (main, own), join)
        by_time = "unit_id" in join
        if (after if by_time else known) < JOINED:
            continue
        wanted = [e for e in CANONICAL_COLUMNS["clicks"] if e != "unit_id" or by_time]
        used = {entry: columns[entry] for entry in wanted if entry in columns}
        keys = " and ".join(columns[entry].name for entry in join)
        reason = f"{after:.1%} of the rows follow an impression of their {keys}"
        reason = reason if by_time else f"{known:.1%} of the rows have the {keys} of an impression"
        question = "" if _says_clicks(name) or "dwell" in used else "are its rows clicks?"
        if by_time and soon < 0.9 * after:
            question = (
                f"{1 - soon / after:.0%} of the clicks come later than 24 hours after their "
                "impression, and do not count: is attribution_hours longer?"
            )
        return Other(
            table,
            "clicks",
            used,
            join=join if by_time or join != _natural(columns, own) else (),
            casts=_casts({entry: used[entry] for entry in join}, own),
            reason=reason,
            question=question,
        )
    return None


def _joins(columns: Mapping[str, Column], own: Mapping[str, Column]) -> Iterator[tuple[str, ...]]:
    both = columns.keys() & own.keys()
    for join in _JOINS:
        if {*join} <= both and ("unit_id" not in join or "ts" in both):
            yield join


def _natural(columns: Mapping[str, Column], own: Mapping[str, Column]) -> tuple[str, ...] | None:
    return next(_joins(columns, own), None)


def _no_clicks(engine: Engine, table: Table, main: Table, own: Mapping[str, Column]) -> str:
    """Ask why rows that are called clicks are those of no impressions."""
    columns = _entries(table)
    join = _natural(columns, own)
    if join is None:
        return (
            "it shares no ids with the impressions, so it gives no CTR: which columns are theirs?"
        )
    known, after, _ = _followed(engine, (table, columns), (main, own), join)
    keys = " and ".join(columns[entry].name for entry in join)
    return (
        f"{known:.0%} of its rows have the {keys} of an impression, {after:.0%} after it, so it "
        "gives no CTR: are ids and times written alike?"
    )


def _of_units(engine: Engine, table: Table, main: Table, own: Mapping[str, Column]) -> Other:
    """Guess what a table is that shares the main one's units."""
    unit, time = unit_guess(table).column, time_guess(table)
    if unit is None or "unit_id" not in own:
        return Other(table, None, reason="no column names its unit, or an item of the impressions")
    share = _share(engine, (table, unit), (main, own["unit_id"]))
    if share < JOINED:
        reason = f"{share:.0%} of its {unit.name} are units of the other table"
        return Other(table, None, reason=reason)
    columns = {"unit_id": unit}
    casts = _casts(columns, own)
    has_one_row = unit.distinct == table.rows
    variant = variant_of(engine, table, has_one_row).column
    is_placed = variant_of(engine, main, False).column is not None
    if places_units(engine, table) and variant is not None and not (has_one_row and is_placed):
        columns["variant"] = variant
        if time.column is not None:
            columns["ts"] = time.column
        return Other(table, "exposures", columns, casts=casts, reason="units with their variant")
    if time.column is None or (has_one_row and is_of_unit(time)):
        reason = "a row a unit" if has_one_row else "units have several rows, without times"
        return Other(table, "units" if has_one_row else None, columns, casts=casts, reason=reason)
    if "ts" not in own:
        return Other(table, None, reason="its rows have times, but the other table has none")
    columns["ts"] = time.column
    reason = "rows of units, with times"
    return Other(table, "events", columns, tuple(_outcomes(table, columns)), (), casts, reason)


def _outcomes(table: Table, columns: Mapping[str, Column]) -> Iterator[Column]:
    """List columns of numbers that are outcomes by their names."""
    taken = {column.name for column in columns.values()}
    for one in value_guesses(table, taken):
        column = one.column if one.entry == "outcome" else None
        if column is not None and words.has_word(column.name, words.OUTCOME):
            yield column


def _says_clicks(name: str) -> bool:
    return words.has_word(name, words.CLICKS)


def _is_event(name: str, table: Table) -> bool:
    """Say whether rows are orders or the like, by the table's name or its columns."""
    is_named = says_other(name) and not _says_clicks(name)
    return is_named or any(_outcomes(table, {}))


def _casts(columns: Mapping[str, Column], own: Mapping[str, Column]) -> dict[str, str]:
    """Return column → type, of ids that are written otherwise than those of the main table."""
    casts = {}
    for entry, column in columns.items():
        if entry == "ts" or entry not in own:
            continue
        if (own[entry].kind == "text") != (column.kind == "text") or column.kind == "real":
            casts[column.name] = "varchar" if own[entry].kind == "text" else "bigint"
    return casts


def _share(engine: Engine, part: tuple[Table, Column], whole: tuple[Table, Column]) -> float:
    """Return the share of the ids of a column that another one has."""
    ids, known = (
        f"select distinct {_text(column)} as id from {quoted(table.relation)} "
        f"where {quoted(column.name)} is not null"
        for table, column in (part, whole)
    )
    ((share,),) = engine.rows(
        "select avg(case when b.id is null then 0 else 1 end) "
        f"from ({ids}) a left join ({known}) b on a.id = b.id"
    )
    return float(share or 0)


def _followed(
    engine: Engine,
    clicks: tuple[Table, Mapping[str, Column]],
    seen: tuple[Table, Mapping[str, Column]],
    join: Sequence[str],
) -> tuple[float, float, float]:
    """Return the shares of clicks with an impression of their keys, before them, a day before."""
    rows = (
        f"select {', '.join(f'{_text(columns[e])} as k_{i}' for i, e in enumerate(join))}, "
        f"{moment(columns['ts']) if 'ts' in columns else 'cast(null as timestamp)'} as t "
        f"from {quoted(table.relation)}"
        for table, columns in (clicks, seen)
    )
    keys = " and ".join(f"c.k_{i} = s.k_{i}" for i in range(len(join)))
    own = ", ".join(f"k_{i}" for i in range(len(join)))
    shares = ", ".join(
        f"avg(case when {condition} then 1.0 else 0.0 end)"
        for condition in ("is_known", "last_seen is not null", "t - last_seen <= interval 1 day")
    )
    (values,) = engine.rows(
        f"with clicks as ({next(rows)}), seen as ({next(rows)}), "
        "tied as (select c.*, s.k_0 is not null as is_known from clicks c "
        f"left join (select distinct {own} from seen) s on {keys}) "
        f"select {shares} from (select c.t, c.is_known, s.t as last_seen from tied c "
        f"asof left join (select * from seen where t is not null) s on {keys} and c.t >= s.t)"
    )
    known, after, soon = (float(value or 0) for value in values)
    return known, after, soon


def _text(column: Column) -> str:
    """Write SQL of an id as text; ids that pandas wrote as 7.0 become whole."""
    name = quoted(column.name)
    return f"cast({f'cast({name} as bigint)' if column.kind == 'real' else name} as varchar)"


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def moment(column: Column) -> str:
    """Write SQL of a column of times as a timestamp in UTC."""
    name = quoted(column.name)
    if column.kind == "integer":
        per_second = _PER_SECOND[time_unit(column) or "s"]
        return f"make_timestamp(cast({name} * (1000000.0 / {per_second}) as bigint))"
    if column.type == "TIMESTAMP WITH TIME ZONE":
        return f"{name} at time zone 'UTC'"
    return f"cast({name} as timestamp)"
