"""Write guesses as an experiment file; what is not sure is a comment, until a person decides."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tomlkit
from tomlkit.items import Item
from tomlkit.items import Table as TomlTable

from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Arms, Guess, Other, time_unit
from abeval.drafts.words import slug
from abeval.engines.sql import cast_query, quoted
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE
from abeval.stats.srm import chi_square

_NO_COLUMN = ("unit", "outcome", "covariate", "segment")
"""Guesses that are no canonical column."""


@dataclass(frozen=True)
class Tables:
    """The tables that the file names.

    Attributes:
        paths: Relation → its files; empty for a frame.
        of_units: Whether rows are units, whose date is not when they came.
    """

    main: Table
    paths: Mapping[str, Sequence[str]]
    others: Sequence[Other]
    one_row: bool
    of_units: bool = False

    @property
    def events(self) -> dict[str, Other]:
        """Return the logs of events, each by a name that follows from its file's."""
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
    table.add(key, _noted(value, f"{guess.certainty}: {guess.reason}"))


def _noted(value: object, comment: str) -> Item:
    item: Item = tomlkit.item(value)
    item.comment(comment)
    return item


def _comment(document: tomlkit.TOMLDocument, *lines: str) -> None:
    for line in lines:
        document.add(tomlkit.comment(line))


def write_logs(
    document: tomlkit.TOMLDocument, guesses: Sequence[Guess], tables: Tables
) -> Iterator[str]:
    """Write `[logs]`, and ask about tables that the draft does not read."""
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
            files = ", ".join(tables.paths[other.table.relation])
            document.add(tomlkit.nl())
            _comment(
                document,
                f"NOT SURE: {files} is not used. Its rows may be",
                "[logs.exposures] (unit, variant and time), [logs.units]",
                "(one row a unit), or [logs.events.NAME] (unit and time).",
            )
            yield f"{files} is not used: exposures, a table of units, or events?"


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
    dwell = [g.column.name for g in guesses if g.entry == "dwell" and g.column is not None]
    if any(name.endswith("ms") for name in dwell):
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
    """Read ids that pandas wrote as 7.0 as 7."""
    if unit is not None and unit.kind == "real":
        query = tomlkit.string(cast_query(unit.name, "bigint"), literal="'" not in unit.name)
        query.comment(f"sure: {unit.name} is {unit.type}, but every value is whole")
        log.add("query", query)


def _add_time_unit(log: TomlTable, time: Column | None) -> None:
    if time is not None and time.kind == "integer":
        log.add("time_unit", tomlkit.item(time_unit(time)))


FITS = 0.01
"""P-value of the sample ratio above which weights are taken for the intended ones."""

NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""


def experiment_text(
    name: str, guesses: Sequence[Guess], arms: Arms | None, tables: Tables, builtin: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Write the file, and the questions that it asks."""
    by_entry = {g.entry: g for g in reversed(guesses)}
    head, document = tomlkit.document(), tomlkit.document()
    head.add("name", tomlkit.item(name))
    unit = by_entry["unit"]
    add_guess(document, "unit", "row" if unit.column is None else unit.column.name, unit)
    questions = [f"unit: {unit.reason}"] if _asks(unit) else []
    questions += _write_variants(document, arms, by_entry["variant"])
    document.add(tomlkit.nl())
    questions += write_logs(document, guesses, tables)
    _write_segments(document, guesses)
    questions += _write_metrics(document, guesses, tables, builtin)
    if questions:
        _comment(
            head,
            "Answer each question, then remove it: until none is left, the analysis is a DRAFT",
            "and decides nothing.",
        )
        head.add("questions", tomlkit.item(questions).multiline(True))
    return tomlkit.dumps(head) + tomlkit.dumps(document), tuple(questions)


def _asks(guess: Guess) -> bool:
    return guess.certainty == "not sure"


def _write_variants(
    document: tomlkit.TOMLDocument, arms: Arms | None, variant: Guess
) -> Iterator[str]:
    if arms is None:
        _comment(
            document,
            f"NOT SURE: {variant.reason} Name it in `columns` below",
            "and its values as [variants.NAME]; without such a column, give",
            "[assignment] a `salt`: units are then assigned by hash.",
        )
        document.add("control", tomlkit.item("?"))
        yield f"variant: {variant.reason}"
        return
    if _asks(variant):
        yield f"variant: is it {variant.column.name if variant.column else '?'}? {variant.reason}"
    document.add("control", _noted(arms.control, f"{arms.certainty}: {arms.reason}"))
    if arms.certainty == "not sure":
        names = ", ".join(map(repr, arms.units))
        yield f"control: is it {arms.control!r}? The variants are {names}"
    variants = tomlkit.table(is_super_table=True)
    weights, total = likely_weights(arms.units), sum(arms.units.values())
    for value, weight in weights.items():
        entry = tomlkit.table()
        share = f"{arms.units[value] / total:.2%} of the units"
        entry.add("weight", _noted(weight, f"{share}: write the share that was intended"))
        if value in arms.joined:
            alike = "not sure: they differ only in capitals or spaces"
            entry.add("of", _noted(list(arms.joined[value]), alike))
        variants.add(value, entry)
    document.add(tomlkit.nl())
    document.add("variants", variants)
    for spellings in arms.joined.values():
        yield f"variants: are {', '.join(map(repr, spellings))} one variant? They are joined"
    if len({*weights.values()}) > 1:
        listed = ", ".join(f"{value} {weight:g}" for value, weight in weights.items())
        yield f"weights: were {listed} intended?"


def likely_weights(units: Mapping[str, int]) -> dict[str, float]:
    """Return the roundest weights that fit the units: equal, or in steps of 5, 1, .1 per cent.

    Weights that are the observed shares would hide a sample ratio mismatch; so shares near equal
    ones are meant to be equal, whatever the counts say.

    >>> likely_weights({"a": 5_060, "b": 4_940}), likely_weights({"a": 9_020, "b": 980})
    ({'a': 1, 'b': 1}, {'a': 0.9, 'b': 0.1})
    """
    total = sum(units.values())
    equal = total / len(units)
    if all(abs(count - equal) <= NEAR * equal for count in units.values()):
        return dict.fromkeys(units, 1)
    shares = {value: count / total for value, count in units.items()}
    rounded = (
        {value: round(round(share / step) * step, 4) for value, share in shares.items()}
        for step in (0.05, 0.01, 0.001)
    )
    for weights in (dict.fromkeys(units, 1.0), *rounded):
        if (
            min(weights.values()) > 0
            and chi_square(list(units.values()), list(weights.values())).p_value > FITS
        ):
            return {value: int(w) if w == 1 else w for value, w in weights.items()}
    return {value: round(share, 4) for value, share in shares.items()}


def _write_segments(document: tomlkit.TOMLDocument, guesses: Sequence[Guess]) -> None:
    named = [g.column for g in guesses if g.entry == "segment" and g.column is not None]
    if not named:
        return
    document.add(tomlkit.nl())
    _comment(
        document,
        "Properties that the treatment cannot change may be segments:",
        "[segments]",
        *(f"{slug(c.name)} = {tomlkit.item(quoted(c.name)).as_string()}" for c in named),
    )


def _write_metrics(
    document: tomlkit.TOMLDocument,
    guesses: Sequence[Guess],
    tables: Tables,
    builtin: Collection[str],
) -> Iterator[str]:
    document.add(tomlkit.nl())
    entries = tomlkit.aot()
    if any(g.entry == "click" for g in guesses):
        entries.append(_metric({"name": "ctr", "role": "goal"}, "clicks / impressions"))
    outcomes = [g for g in guesses if g.entry == "outcome" and g.column is not None]
    for guess in outcomes:
        if not _asks(guess) and guess.column is not None:
            fields = _own(guess.column, tables.one_row, builtin)
            entries.append(_metric(fields, f"{guess.certainty}: {guess.reason}"))
    for name, other in tables.events.items():
        for fields in _of_events(name, other):
            entries.append(_metric(fields, f"likely: of the rows of {name} since the exposure"))
    if len(entries):
        document.add("metrics", entries)
    unsure = [g.column for g in outcomes if _asks(g) and g.column is not None]
    known = [g.column for g in guesses if g.entry == "covariate" and g.column is not None]
    titles = (("NOT SURE: Outcomes, or known before?", unsure), ("Known before:", known))
    for title, columns in titles:
        if columns:
            document.add(tomlkit.nl())
            _comment(document, title)
        for column in columns:
            own = _own(column, tables.one_row, builtin)
            lines = (f"{key} = {tomlkit.item(value).as_string()}" for key, value in own.items())
            _comment(document, "[[metrics]]", *lines)
    if unsure:
        yield f"outcomes: are {', '.join(column.name for column in unsure)} among them?"
    if not len(entries):
        yield "metrics: no column is surely an outcome; choose from those in the comments"


def _own(column: Column, one_row: bool, builtin: Collection[str]) -> dict[str, object]:
    """Make a metric of one column: a share if each unit has 0 or 1, else a mean per unit."""
    name = slug(column.name)
    if not one_row:
        name = f"{name}_per_unit"
    if name in builtin:
        name = f"{name}_value"
    fields: dict[str, object] = {"name": name, "role": "goal", "value": _number(column)}
    return fields | ({"unit": "share"} if column.is_share and one_row else {})


def _number(column: Column) -> str:
    value = quoted(column.name)
    return f"case when {value} then 1 else 0 end" if column.kind == "boolean" else value


def _of_events(name: str, other: Other) -> Iterator[dict[str, object]]:
    """Make metrics of a log of events: units that have a row, and sums of its outcomes."""
    yield {"name": f"any_{name}", "role": "goal", "log": name}
    for column in other.outcomes:
        named = f"{name}_{slug(column.name)}"
        value = _number(column)
        yield {"name": named, "role": "goal", "log": name, "per_unit": "sum", "value": value}


def _metric(fields: Mapping[str, object], comment: str) -> TomlTable:
    entry = tomlkit.table()
    for key, value in fields.items():
        entry.add(key, _noted(value, comment) if key == "name" else tomlkit.item(value))
    return entry
