"""Write guesses as an experiment file; what is not sure is a comment, until a person decides."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tomlkit
from tomlkit.items import Item
from tomlkit.items import Table as TomlTable

from abeval.drafts.columns import Column, Table
from abeval.drafts.design import Models, Period
from abeval.drafts.guess import Arms, Guess, are_near_equal, time_unit
from abeval.drafts.origins import Origin
from abeval.drafts.others import Other, says_other
from abeval.drafts.values import DOUBT
from abeval.drafts.words import AVERAGED, UNIT, has_word, named, slug
from abeval.engines.sql import cast_query, quoted
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE
from abeval.stats.srm import chi_square

_NO_COLUMN = ("unit", "outcome", "diagnostic", "covariate", "segment", "ratio", "text")
"""Guesses that are no canonical column."""


@dataclass(frozen=True)
class Tables:
    """The tables that the file names, and what they show of the experiment's design.

    Attributes:
        origins: Relation → where its rows come from.
        of_units: Whether rows are units, whose date is not when they came.
    """

    main: Table
    origins: Mapping[str, Origin]
    others: Sequence[Other]
    one_row: bool
    of_units: bool = False
    period: Period | None = None
    models: Models | None = None

    def origin(self, other: Other) -> Origin:
        """Return where the rows of a table beside the main one come from."""
        return self.origins[other.table.relation]

    @property
    def events(self) -> dict[str, Other]:
        """Return the logs of events, each by a name that follows from its file's."""
        named: dict[str, Other] = {}
        for other in self.others:
            if other.kind == "events":
                name = slug(self.origin(other).name)
                names = (name, *(f"{name}_{place}" for place in range(2, len(self.others) + 3)))
                taken = {*CANONICAL_COLUMNS, OWN_TABLE, *named}
                named[next(free for free in names if free not in taken)] = other
        return named


def _noted(value: object, comment: str) -> Item:
    item: Item = tomlkit.item(value)
    return item.comment(comment) if comment else item


def _comment(document: tomlkit.TOMLDocument, *lines: str) -> None:
    for line in lines:
        document.add(tomlkit.comment(line))


def write_logs(
    document: tomlkit.TOMLDocument, guesses: Sequence[Guess], tables: Tables
) -> Iterator[str]:
    """Write `[logs]`, and ask about tables that the draft does not read."""
    own = {g.entry: g for g in guesses if g.column is not None and g.entry not in _NO_COLUMN}
    unit = next(g.column for g in guesses if g.entry == "unit")
    main = Other(
        tables.main,
        "units" if tables.of_units else "impressions",
        {entry: g.column for entry, g in own.items() if g.column is not None},
        casts={unit.name: "bigint"} if unit is not None and unit.kind == "real" else {},
    )
    notes = {entry: f"{g.certainty}: {g.reason}" for entry, g in own.items()}
    logs, events = tomlkit.table(is_super_table=True), tomlkit.table(is_super_table=True)
    for other in (main, *tables.others):
        if other.kind is not None and other.kind != "events":
            logs.add(other.kind, _log(other, tables.origin(other), unit, notes))
            notes = {}
    if known := _known_before(guesses, tables):
        hint = 'likely: they were before; [inference] adjust = "cuped" makes use of them'
        logs["units"].add("covariates", _noted(known, hint))
    for name, other in tables.events.items():
        events.add(name, _log(other, tables.origin(other), unit, {}))
    if len(events):
        logs.add("events", events)
    document.add("logs", logs)
    for origin in tables.origins.values():
        yield from origin.reading.questions
        if origin.question:
            yield origin.question
    for other in tables.others:
        origin = tables.origin(other)
        named = ", ".join(origin.files) + (f" where {origin.where}" if origin.where else "")
        if "table" in origin.reading.entries:
            named += f", table {origin.name}"
        if other.kind is not None:
            yield from origin.reading.questions
            if other.question:
                yield f"{named}: {other.question}"
            continue
        document.add(tomlkit.nl())
        _comment(
            document,
            f"NOT SURE: {named} is not used: {other.reason}. Its rows may be",
            "[logs.clicks] (unit, item and time), [logs.exposures] (unit, variant and time),",
            "[logs.units] (one row a unit), or [logs.events.NAME] (unit and time).",
        )
        yield (
            f"{named} is not used: {other.reason}. Are its rows clicks, exposures, a table of "
            "units, or events?"
        )


def _known_before(guesses: Sequence[Guess], tables: Tables) -> list[str]:
    """Return the covariates of a table of units."""
    known = (g.column for g in guesses if g.entry == "covariate" and tables.of_units)
    return [c.name if c.name.isidentifier() else c.number for c in known if c is not None]


def _log(other: Other, origin: Origin, unit: Column | None, notes: Mapping[str, str]) -> TomlTable:
    """Write the entry of a log, with notes on its columns."""
    log, columns = tomlkit.table(), tomlkit.table()
    files = {name: own[0] if len(own) == 1 else own for name, own in origin.paths.items()}
    if files and "" not in files and "variant" in CANONICAL_COLUMNS.get(other.kind or "", ()):
        by_variant = tomlkit.inline_table()
        by_variant.update(files)
        log.add("path", by_variant.comment("likely: each variant has its own files"))
    elif files:
        log.add("path", tomlkit.item(files.get("", origin.files)))
    for key, value in origin.reading.entries.items():
        log.add(key, _noted(value, origin.reading.reasons.get(key, "sure: it is named so")))
    if origin.where:
        log.add("where", tomlkit.item(origin.where))
    if other.casts:
        query = cast_query(other.casts, "try_cast")
        item = tomlkit.string(query, literal="'" not in query)
        log.add("query", item.comment("likely: ids are text in one log, or have a point"))
    time, dwell = other.columns.get("ts"), other.columns.get("dwell")
    if time is not None and time.kind == "integer":
        log.add("time_unit", tomlkit.item(time_unit(time)))
    if dwell is not None and dwell.name.endswith("ms"):
        log.add("dwell_unit", tomlkit.item("ms"))
    if other.join:
        log.add("join", _noted(list(other.join), f"likely: {other.reason}"))
    for entry, column in other.columns.items():
        is_unit = entry == "unit_id" and unit is not None and column.name == unit.name
        if column.name != entry and not is_unit:
            columns.add(entry, _noted(column.name, notes.get(entry, "")))
    if len(columns):
        log.add("columns", columns)
    return log


FITS = 0.01
"""P-value of the sample ratio above which weights are taken for the intended ones."""


def experiment_text(
    name: str, guesses: Sequence[Guess], arms: Arms | None, tables: Tables, builtin: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Write the file, and the questions that it asks."""
    by_entry = {g.entry: g for g in reversed(guesses)}
    document = tomlkit.document()
    unit = by_entry["unit"]
    of_rows = "row" if unit.column is None else unit.column.name
    document.add("unit", _noted(of_rows, f"{unit.certainty}: {unit.reason}"))
    questions = [*unit.questions]
    _write_period(document, tables.period)
    questions += _write_variants(document, arms, by_entry["variant"], tables)
    document.add(tomlkit.nl())
    questions += write_logs(document, guesses, tables)
    _write_segments(document, guesses)
    questions += _write_metrics(document, guesses, tables, builtin)
    return head_text(name, questions) + tomlkit.dumps(document), tuple(questions)


def head_text(name: str, questions: Sequence[str]) -> str:
    """Write what an experiment file begins with: its name and the questions."""
    head = tomlkit.document()
    head.add("name", tomlkit.item(name))
    if questions:
        until = "until then the analysis is a DRAFT and decides nothing."
        _comment(head, f"Answer each, then remove it; {until}")
        head.add("questions", tomlkit.item(questions).multiline(True))
    return tomlkit.dumps(head)


def _asks(guess: Guess) -> bool:
    return guess.certainty == "not sure"


def _write_period(document: tomlkit.TOMLDocument, period: Period | None) -> None:
    if period is None:
        return
    spans = {"period": (period.start, period.end), "pre_period": (period.before, period.start)}
    for name, (start, end) in spans.items():
        table = tomlkit.table()
        table.add("start", _noted(start, f"likely: {period.reason}"))
        table.add("end", tomlkit.item(end))
        document.add(tomlkit.nl())
        document.add(name, table)


def _write_variants(
    document: tomlkit.TOMLDocument, arms: Arms | None, variant: Guess, tables: Tables
) -> Iterator[str]:
    models, files = tables.models, tables.origins[tables.main.relation].files
    if arms is None:
        _comment(
            document,
            f"NOT SURE: {variant.reason} Name it in `columns` below",
            "and its values as [variants.NAME]; without such a column, give",
            "[assignment] a `salt`: units are then assigned by hash.",
        )
        document.add("control", tomlkit.item("?"))
        by_file = " Or is each file of one variant: path = { NAME = FILE, … }?"
        yield f"variant: {variant.reason}{by_file if len(files) > 1 else ''}"
        return
    if _asks(variant):
        yield f"variant: is it {variant.column.name if variant.column else '?'}? {variant.reason}"
    weights = likely_weights(arms.units)
    document.add("control", _noted(arms.control, f"{arms.certainty}: {arms.reason}"))
    yield from questions_of_split(arms, weights)
    variants = tomlkit.table(is_super_table=True)
    total = sum(arms.units.values())
    for value, weight in weights.items():
        entry = tomlkit.table()
        share = f"{arms.units[value] / total:.2%} of the units"
        entry.add("weight", _noted(weight, f"{share}: write the share that was intended"))
        if value in arms.joined:
            alike = "not sure: they differ only in capitals or spaces"
            entry.add("of", _noted(list(arms.joined[value]), alike))
        if models is not None and value in models.served:
            entry.add("model", _noted(models.served[value], "likely: by its name"))
        variants.add(value, entry)
    document.add(tomlkit.nl())
    document.add("variants", variants)
    if models is not None:
        scores = {name: {"score": column.name} for name, column in models.scores.items()}
        document.add("models", tomlkit.item(scores))
        if not models.served:
            names = ", ".join(models.scores)
            yield f"models: which of {names} does each variant serve? Add `model` to [variants]"
    for spellings in arms.joined.values():
        yield f"variants: are {', '.join(map(repr, spellings))} one variant? They are joined"


def questions_of_split(arms: Arms, weights: Mapping[str, float]) -> Iterator[str]:
    """Ask which variant is the control, and whether an uneven split was planned."""
    if arms.certainty == "not sure":
        names = ", ".join(map(repr, arms.units))
        yield f"control: is it {arms.control!r}? The variants are {names}"
    if len({*weights.values()}) > 1:
        listed = ", ".join(f"{value} {weight:g}" for value, weight in weights.items())
        yield f"weights: was this split planned: {listed}? Write the planned shares as `weight`"


def likely_weights(units: Mapping[str, int]) -> dict[str, float]:
    """Return the roundest weights that fit the units: equal, or in steps of 5, 1, .1 per cent.

    Weights that are the observed shares would hide a sample ratio mismatch; so shares near equal
    ones are meant to be equal, whatever the counts say.

    >>> likely_weights({"a": 5_060, "b": 4_940}), likely_weights({"a": 9_020, "b": 980})
    ({'a': 1, 'b': 1}, {'a': 0.9, 'b': 0.1})
    """
    if are_near_equal(units):
        return dict.fromkeys(units, 1)
    total = sum(units.values())
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
    taken = {*builtin}
    unit = guesses[0].column
    own = [(g, g.column) for g in guesses if g.column is not None]
    is_clicked = has_ctr(guesses, tables.others)
    kinds = ("outcome", "ratio") if is_clicked else ("outcome", "ratio", "diagnostic")
    values = [(g, c) for g, c in own if g.entry in kinds]
    beside = [(g, c) for g, c in own if g.entry == "diagnostic" and is_clicked]
    for guess, column in values:
        fields = _own(guess, column, unit, tables, taken)
        entries.append(_metric(fields, f"{guess.certainty}: {guess.reason}"))
    for name, other in tables.events.items():
        # Of types of rows, such as logins, those that are called so are outcomes.
        origin = tables.origin(other)
        is_goal = not origin.where or says_other(origin.name)
        for fields in _of_events(name, other, "goal" if is_goal else "diagnostic"):
            entries.append(_metric(fields, f"likely: of the rows of {name} since the exposure"))
    ctr = {"name": "ctr", "role": "goal"}
    if is_clicked and len(entries):
        entries.insert(0, _metric(ctr, "clicks / impressions"))
    elif is_clicked:
        _comment(document, "All built-in metrics of these logs are shown, and the goal is CTR. To")
        _comment(document, "choose others, add entries for all:", "[[metrics]]", 'name = "ctr"')
    if len(entries):
        document.add("metrics", entries)
    known = [(g, c) for g, c in own if g.entry == "covariate" and not tables.of_units]
    if known or beside:
        document.add(tomlkit.nl())
        _comment(document, "Others, and what was known before:")
    for guess, column in (*beside, *known):
        fields = _own(guess, column, unit, tables, taken)
        lines = (f"{key} = {tomlkit.item(value).as_string()}" for key, value in fields.items())
        _comment(document, "[[metrics]]", *lines)
    for guess in guesses:
        yield from guess.questions if guess.entry != "unit" else ()
    unsure = [c.name for g, c in values if g.entry == "outcome" and g.reason == DOUBT]
    if unsure:
        yield f"outcomes: are {', '.join(unsure)} among them? They are diagnostics until then"
    if not len(entries) and not is_clicked:
        yield "metrics: no column is a number that could be an outcome"


def has_ctr(guesses: Sequence[Guess], others: Sequence[Other]) -> bool:
    """Say whether the logs have clicks."""
    kinds = {*(g.entry for g in guesses), *(other.kind for other in others)}
    return bool(kinds & {"click", "clicks"})


def _own(
    guess: Guess, column: Column, unit: Column | None, tables: Tables, taken: set[str]
) -> dict[str, object]:
    """Make a metric of one column: a share if each unit has 0 or 1, else a mean per unit.

    Of several rows of a place, or where a sum says nothing, it is the mean of the rows.
    """
    rows = tables.main.rows
    of_place = unit is not None and named(unit.name, UNIT) is None and rows % unit.distinct > 0
    is_mean = of_place or column.is_share or has_word(column.name, AVERAGED)
    of_rows = not tables.one_row and is_mean and (of_place or not column.is_share)
    name, value = slug(column.name), column.number
    fields: dict[str, object] = {"value": value}
    if guess.over is not None:
        name = f"{name}_per_{slug(guess.over.name)}"
        fields = {"numerator": value, "denominator": quoted(guess.over.name)}
    elif of_rows:
        fields = {"numerator": value, "denominator": "1"}
    elif not tables.one_row:
        name = f"{name}_per_unit"
    free = (name, f"{name}_value", *(f"{name}_{place}" for place in range(2, len(taken) + 3)))
    name = next(own for own in free if own not in taken)
    taken.add(name)
    if column.is_share and (tables.one_row or of_rows):
        fields["unit"] = "share"
    if guess.decreases:
        fields["direction"] = "decrease"
    if column.rows < rows:
        fields["missing"] = "drop"
    role = "diagnostic" if _asks(guess) else "goal"
    return {"name": name, "role": role, **fields}


def _of_events(name: str, other: Other, role: str) -> Iterator[dict[str, object]]:
    """Make metrics of a log of events: units that have a row, and sums of its outcomes."""
    yield {"name": f"any_{name}", "role": role, "log": name}
    for column in other.outcomes:
        sums = {"per_unit": "sum", "value": column.number}
        yield {"name": f"{name}_{slug(column.name)}", "role": role, "log": name, **sums}


def _metric(fields: Mapping[str, object], comment: str) -> TomlTable:
    entry = tomlkit.table()
    for key, value in fields.items():
        entry.add(key, _noted(value, comment) if key == "name" else tomlkit.item(value))
    return entry
