"""The tables of a draft → `[logs]` of the experiment file.

`drafts/write.py` calls it; a table that it cannot place is named in a comment, and asked about.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tomlkit
from tomlkit.items import Table as TomlTable

from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Guess, Other, time_unit
from abeval.drafts.words import slug
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE
from abeval.logs.mapping import cast_query

_NO_COLUMN = ("unit", "outcome", "covariate", "segment")
"""Guesses that are no canonical column."""


@dataclass(frozen=True)
class Tables:
    """The tables that the file names.

    Attributes:
        main: The one that is analysed.
        paths: Relation → its files; empty for a frame.
        others: Those beside it.
        one_row: Whether each unit has one row.
        of_units: Whether rows are units, whose date is not when they came.
    """

    main: Table
    paths: Mapping[str, Sequence[str]]
    others: Sequence[Other]
    one_row: bool
    of_units: bool = False

    @property
    def events(self) -> dict[str, Other]:
        """The logs of events by the names that they get: those of their files."""
        named: dict[str, Other] = {}
        for other in self.others:
            if other.kind == "events":
                name = slug(self.paths[other.table.relation][0].split("/")[-1].split(".")[0])
                names = (name, *(f"{name}_{place}" for place in range(2, len(self.others) + 3)))
                taken = {*CANONICAL_COLUMNS, OWN_TABLE, *named}
                named[next(free for free in names if free not in taken)] = other
        return named


def add_guess(
    table: tomlkit.TOMLDocument | TomlTable, key: str, value: object, guess: Guess
) -> None:
    """Add an entry with how sure it is and why."""
    item = tomlkit.item(value)
    item.comment(f"{guess.certainty}: {guess.reason}")
    table.add(key, item)


def write_logs(
    document: tomlkit.TOMLDocument, guesses: Sequence[Guess], tables: Tables
) -> Iterator[str]:
    """`[logs]`; the questions are on tables that the draft does not read."""
    logs = tomlkit.table(is_super_table=True)
    logs.add("units" if tables.of_units else "impressions", _main(guesses, tables))
    for other in tables.others:
        if other.kind is not None and other.kind != "events":
            logs.add(other.kind, _other(other, tables))
    events = tomlkit.table(is_super_table=True)
    for name, other in tables.events.items():
        events.add(name, _other(other, tables))
    if len(events):
        logs.add("events", events)
    document.add("logs", logs)
    for other in tables.others:
        if other.kind is None:
            yield _unused(document, ", ".join(tables.paths[other.table.relation]))


def _main(guesses: Sequence[Guess], tables: Tables) -> TomlTable:
    main = tomlkit.table()
    paths = tables.paths.get(tables.main.relation)
    if paths:
        main.add("path", tomlkit.item(paths[0] if len(paths) == 1 else list(paths)))
    _add_cast(main, next(g for g in guesses if g.entry == "unit").column)
    columns = tomlkit.table()
    for guess in guesses:
        if guess.entry in _NO_COLUMN or guess.column is None or guess.column.name == guess.entry:
            continue
        add_guess(columns, guess.entry, guess.column.name, guess)
    _add_time_unit(main, next(g for g in guesses if g.entry == "ts").column)
    if any(
        g.column is not None and g.column.name.endswith("ms") for g in guesses if g.entry == "dwell"
    ):
        main.add("dwell_unit", tomlkit.item("ms"))
    if len(columns):
        main.add("columns", columns)
    return main


def _other(other: Other, tables: Tables) -> TomlTable:
    log = tomlkit.table()
    log.add("path", tomlkit.item(list(tables.paths[other.table.relation])))
    _add_cast(log, other.columns.get("unit_id"))
    _add_time_unit(log, other.columns.get("ts"))
    columns = tomlkit.table()
    for entry, column in other.columns.items():
        if column.name != entry:
            columns.add(entry, tomlkit.item(column.name))
    if len(columns):
        log.add("columns", columns)
    return log


def _add_cast(log: TomlTable, unit: Column | None) -> None:
    """Ids that pandas wrote as 7.0 are read as 7."""
    if unit is not None and unit.kind == "real":
        query = tomlkit.string(cast_query(unit.name, "bigint"), literal="'" not in unit.name)
        query.comment(f"sure: {unit.name} is {unit.type}, but every value is whole")
        log.add("query", query)


def _add_time_unit(log: TomlTable, time: Column | None) -> None:
    if time is not None and time.kind == "integer":
        log.add("time_unit", tomlkit.item(time_unit(time)))


def _unused(document: tomlkit.TOMLDocument, files: str) -> str:
    """Comment on files that the draft does not read; the question."""
    document.add(tomlkit.nl())
    document.add(tomlkit.comment(f"NOT SURE: {files} is not used. Its rows may be"))
    document.add(tomlkit.comment("[logs.exposures] (unit, variant and time), [logs.units]"))
    document.add(tomlkit.comment("(one row a unit), or [logs.events.NAME] (unit and time)."))
    return f"{files} is not used: exposures, a table of units, or events?"
