"""What the tables beside the main one are: items, clicks, exposures, units, or events of units.

`drafts/run.py` hands it the tables; `drafts/logs.py` writes them as logs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from abeval.drafts import guess, words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import variant_of
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted

Kind = Literal["items", "clicks", "exposures", "units", "events"]

JOINED = 0.5
"""Share of a table's units that are units of the main table, from which on they are the same."""


@dataclass(frozen=True)
class Other:
    """A table beside the main one.

    Attributes:
        table: The table.
        kind: What it is; None where that is not clear, and it is not used.
        columns: Entries of its log → its columns: `unit_id`, `ts`, `variant`.
        outcomes: Its columns that are sums of a unit.
    """

    table: Table
    kind: Kind | None
    columns: Mapping[str, Column] = field(default_factory=dict)
    outcomes: tuple[Column, ...] = ()


def shows_exposures(engine: Engine, table: Table) -> bool:
    """Whether a table says who was in which variant when, and nothing else."""
    unit, time = guess.unit_guess(table).column, guess.time_guess(table).column
    if unit is None or time is None or _besides(table):
        return False
    return variant_of(engine, table, False).column is not None


def shows_rows(table: Table) -> bool:
    """Whether a table says what units saw or did: with a unit, and clicks, items or positions."""
    return guess.unit_guess(table).column is not None and bool(_canonical(table))


def others_of(
    engine: Engine, tables: Sequence[Table], main: Table, unit: Column | None
) -> tuple[Other, ...]:
    """What the tables beside the main one are; each kind but events once."""
    others: list[Other] = []
    for table in tables:
        other = _other(engine, table, main, unit)
        once = other.kind != "events" and other.kind in [known.kind for known in others]
        others.append(Other(table, None) if once else other)
    return tuple(others)


def _other(engine: Engine, table: Table, main: Table, unit: Column | None) -> Other:
    canonical = _canonical(table)
    item = canonical.get("item_id")
    if item is not None and item.distinct == table.rows:
        return Other(table, "items")
    if {"impression_id", "request_id"} & canonical.keys() and table.rows <= main.rows:
        return Other(table, "clicks")
    own = guess.unit_guess(table).column
    if unit is None or own is None or not _is_joined(engine, table, own, main, unit):
        return Other(table, None)
    if shows_exposures(engine, table):
        return Other(table, "exposures", _exposures(engine, table))
    return _of_units(table, own, guess.time_guess(main).column is not None)


def _exposures(engine: Engine, table: Table) -> dict[str, Column]:
    guesses = {
        "unit_id": guess.unit_guess(table),
        "ts": guess.time_guess(table),
        "variant": variant_of(engine, table, False),
    }
    return {entry: one.column for entry, one in guesses.items() if one.column is not None}


def _of_units(table: Table, unit: Column, is_timed: bool) -> Other:
    """What a table is that has the units of the main one, and is no exposures."""
    time, has_one_row = guess.time_guess(table), unit.distinct == table.rows
    if time.column is None or (has_one_row and guess.is_of_unit(time)):
        return Other(table, "units" if has_one_row else None, {"unit_id": unit})
    columns = {"unit_id": unit, "ts": time.column}
    return Other(table, "events" if is_timed else None, columns, tuple(_outcomes(table, columns)))


def _outcomes(table: Table, columns: Mapping[str, Column]) -> Iterator[Column]:
    """Columns of numbers that are outcomes by their names."""
    taken = {column.name for column in columns.values()}
    for one in guess.value_guesses(table, taken):
        column = one.column if one.entry == "outcome" else None
        if column is not None and words.has_word(column.name, words.OUTCOME):
            yield column


def _canonical(table: Table) -> dict[str, Column]:
    """Entries of rows of an impression log → the columns."""
    unit = guess.unit_guess(table).column
    taken = set() if unit is None else {unit.name}
    guesses = guess.canonical_guesses(table, taken)
    return {one.entry: one.column for one in guesses if one.column is not None}


def _besides(table: Table) -> list[str]:
    """The columns that are neither unit nor time nor variant."""
    unit, time = guess.unit_guess(table).column, guess.time_guess(table).column
    known = [unit, time, *guess.variant_candidates(table)]
    names = {column.name for column in known if column is not None}
    return [column.name for column in table.columns if column.name not in names]


def _is_joined(engine: Engine, table: Table, own: Column, main: Table, unit: Column) -> bool:
    """Whether most units of a table are units of the main one."""
    ((share,),) = engine.rows(
        "select avg(case when b.id is null then 0 else 1 end) "
        f"from ({_ids(table, own)}) a left join ({_ids(main, unit)}) b on a.id = b.id"
    )
    return float(share or 0) >= JOINED


def _ids(table: Table, column: Column) -> str:
    """SQL of the ids of a column; numbers as pandas writes them, 7.0 for 7, are whole."""
    name = quoted(column.name)
    value = f"cast({name} as bigint)" if column.kind == "real" else name
    return (
        f"select distinct cast({value} as varchar) as id from {quoted(table.relation)} "
        f"where {name} is not null"
    )
