"""Guesses → the text of an experiment file, with a comment on each.

`drafts/run.py` hands it the guesses; what is not sure is written as a comment, so that no number
comes from it before a person has decided.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import tomlkit
from tomlkit.items import Table as TomlTable

from abeval.drafts.columns import Column
from abeval.drafts.guess import Arms, Guess, Other
from abeval.drafts.words import slug
from abeval.engines.sql import quoted
from abeval.stats.srm import chi_square

FITS = 0.01
"""P-value of the sample ratio above which weights are taken for the intended ones."""

NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""


def experiment_text(
    name: str, guesses: Sequence[Guess], arms: Arms | None, tables: Tables, builtin: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """The file, and the questions that it asks."""
    by_entry = {g.entry: g for g in reversed(guesses)}
    document = tomlkit.document()
    document.add("name", tomlkit.item(name))
    add_guess(document, "unit", _unit(by_entry["unit"]), by_entry["unit"])
    questions = [f"unit: {by_entry['unit'].reason}"] if _asks(by_entry["unit"]) else []
    questions += _write_variants(document, arms, by_entry["variant"])
    document.add(tomlkit.nl())
    questions += write_logs(document, guesses, tables)
    questions += _write_segments(document, guesses)
    questions += _write_metrics(document, guesses, tables, builtin)
    return tomlkit.dumps(document), tuple(questions)


def _asks(guess: Guess) -> bool:
    return guess.certainty == "not sure"


def _unit(guess: Guess) -> str:
    return "row" if guess.column is None else guess.column.name


def _write_variants(
    document: tomlkit.TOMLDocument, arms: Arms | None, variant: Guess
) -> Iterator[str]:
    if arms is None:
        document.add(tomlkit.comment(f"NOT SURE: {variant.reason} Name it in `columns` below"))
        document.add(
            tomlkit.comment("and its values as [variants.NAME]; without such a column, give")
        )
        document.add(tomlkit.comment("[assignment] a `salt`: units are then assigned by hash."))
        document.add("control", tomlkit.item("?"))
        yield f"variant: {variant.reason}"
        return
    if _asks(variant):
        yield f"variant: is it {variant.column.name if variant.column else '?'}? {variant.reason}"
    control = tomlkit.item(arms.control)
    control.comment(f"{arms.certainty}: {arms.reason}")
    document.add("control", control)
    if arms.certainty == "not sure":
        names = ", ".join(map(repr, arms.units))
        yield f"control: is it {arms.control!r}? The variants are {names}"
    variants = tomlkit.table(is_super_table=True)
    weights, total = likely_weights(arms.units), sum(arms.units.values())
    for value, weight in weights.items():
        entry = tomlkit.table()
        item = tomlkit.item(weight)
        item.comment(
            f"{arms.units[value] / total:.2%} of the units: write the share that was intended"
        )
        entry.add("weight", item)
        if value in arms.joined:
            of = tomlkit.item(list(arms.joined[value]))
            of.comment("not sure: they differ only in capitals or spaces")
            entry.add("of", of)
        variants.add(value, entry)
    document.add(tomlkit.nl())
    document.add("variants", variants)
    for spellings in arms.joined.values():
        yield f"variants: are {', '.join(map(repr, spellings))} one variant? They are joined"
    if len({*weights.values()}) > 1:
        listed = ", ".join(f"{value} {weight:g}" for value, weight in weights.items())
        yield f"weights: were {listed} intended?"


def likely_weights(units: Mapping[str, int]) -> dict[str, float]:
    """The roundest weights that the units do not contradict: equal, or in 5, 1, .1 per cent.

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


def _write_segments(document: tomlkit.TOMLDocument, guesses: Sequence[Guess]) -> Iterator[str]:
    named = [g.column for g in guesses if g.entry == "segment" and g.column is not None]
    if not named:
        return
    document.add(tomlkit.nl())
    document.add(tomlkit.comment("Properties that the treatment cannot change may be segments:"))
    document.add(tomlkit.comment("[segments]"))
    for column in named:
        line = f"{slug(column.name)} = {tomlkit.item(quoted(column.name)).as_string()}"
        document.add(tomlkit.comment(line))
    yield from ()


def _write_metrics(
    document: tomlkit.TOMLDocument,
    guesses: Sequence[Guess],
    tables: Tables,
    builtin: Collection[str],
) -> Iterator[str]:
    document.add(tomlkit.nl())
    entries = tomlkit.aot()
    clicked = any(g.entry == "click" for g in guesses)
    if clicked:
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
    for title, columns in (("Outcomes, or known before?", unsure), ("Known before:", known)):
        yield from _write_comments(document, title, columns, tables.one_row, builtin)
    if not len(entries):
        yield "metrics: no column is surely an outcome; choose from those in the comments"


def _write_comments(
    document: tomlkit.TOMLDocument,
    title: str,
    columns: Sequence[Column],
    one_row: bool,
    builtin: Collection[str],
) -> Iterator[str]:
    if not columns:
        return
    document.add(tomlkit.nl())
    document.add(tomlkit.comment(f"NOT SURE: {title}" if title.endswith("?") else title))
    for column in columns:
        document.add(tomlkit.comment("[[metrics]]"))
        for key, value in _own(column, one_row, builtin).items():
            document.add(tomlkit.comment(f"{key} = {tomlkit.item(value).as_string()}"))
    if title.endswith("?"):
        yield f"outcomes: are {', '.join(c.name for c in columns)} among them?"


def _own(column: Column, one_row: bool, builtin: Collection[str]) -> dict[str, object]:
    """A metric of one column: a share where it is 0 or 1 for each unit, else a mean per unit."""
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
    """Metrics of a log of events: units that have a row, and sums of its outcomes."""
    yield {"name": f"any_{name}", "role": "goal", "log": name}
    for column in other.outcomes:
        named = f"{name}_{slug(column.name)}"
        value = _number(column)
        yield {"name": named, "role": "goal", "log": name, "per_unit": "sum", "value": value}


def _metric(fields: Mapping[str, object], comment: str) -> TomlTable:
    entry = tomlkit.table()
    for key, value in fields.items():
        item = tomlkit.item(value)
        if key == "name":
            item.comment(comment)
        entry.add(key, item)
    return entry
