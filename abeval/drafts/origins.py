"""Make tables of files: files of the same columns are one, rows of several types are several."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Origin, Table
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.encodings import likely_encodings
from abeval.engines.protocol import Engine
from abeval.engines.sources import Files, files_of, is_table
from abeval.engines.sql import literal, quoted
from abeval.engines.text_files import decimal_commas
from abeval.errors import LogError
from abeval.experiment.load import reading
from abeval.experiment.sources import LogSource
from abeval.files import real

DONE = ("clicks", "outcome", "events")
"""Roles of words that say that rows are what units did."""


def tables_of(
    engine: DuckDBEngine, files: Sequence[Path], folder: Path, read: Mapping[str, str]
) -> list[Table]:
    """Make tables of files, each a relation of the engine; `read` says how files are read."""
    groups: dict[object, tuple[Origin, list[Path]]] = {}
    for file in (one for named in files for one in _members(engine, named, read)):
        for columns, origin in _readings(engine, file, read):
            key = columns, *origin.read.items()
            groups.setdefault(key, (origin, []))[1].append(file)
    tables = [
        _table(engine, f"raw_table_{place}", origin, group, folder)
        for place, (origin, group) in enumerate(groups.values())
    ]
    return [part for table in tables for part in _parts(engine, table, len(tables) == 1)]


def _table(
    engine: DuckDBEngine, relation: str, origin: Origin, files: Sequence[Path], folder: Path
) -> Table:
    """Make one table of files, which may be of one variant each."""
    paths = {"": [str(file) for file in files]}

    def added(**entries: object) -> Table:
        source = {"path": paths.get("", paths), **origin.read, **entries}
        engine.add_log(relation, LogSource.model_validate(source))
        named = {variant: [_from(folder, path) for path in own] for variant, own in paths.items()}
        name = origin.read.get("table") or _name(files[0])
        return guess.looked(engine, relation, replace(origin, name=name, paths=named))

    table = added()
    by_variant = _files_by_variant(files)
    if by_variant and guess.variant_of(engine, table).column is None:
        paths = by_variant
        table = added()
    variants = guess.variant_candidates(table) or guess.variant_candidates(table, weakly=True)
    if variants and variants[0].kind == "boolean":
        # In text files, names of variants are text, such as Yes.
        table = added(columns={"variant": variants[0].name})
    return table


def _readings(
    engine: DuckDBEngine, file: Path, named: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], Origin]]:
    """Yield the columns of a file or folder and how it is read; of a database, of each table."""
    plain = LogSource(path=str(file), format=reading(named).get("format", "auto"))
    files = files_of("file", plain, Path())
    own = {key: value for key, value in named.items() if files.takes(key)}
    tables = [] if "table" in own else engine.tables_in(files)
    several = [{**own, "table": table} for table in tables] if len(tables) > 1 else [own]
    for entries in several:
        yield _reading(engine, files, file, entries)


def _reading(
    engine: DuckDBEngine, files: Files, file: Path, read: dict[str, str]
) -> tuple[tuple[str, ...], Origin]:
    """Read a file, and change what does not fit it."""
    relation = f"raw_file {file} {read.get('table', '')}"
    reasons, questions = dict[str, str](), list[str]()

    def add() -> Mapping[str, str]:
        engine.add_log(relation, LogSource.model_validate({"path": str(file), **read}))
        engine.spare(relation)
        return engine.columns(relation)

    def change(key: str, value: str, reason: str, is_doubtful: bool) -> Mapping[str, str]:
        read[key] = value
        reasons[key] = f"{'not sure' if is_doubtful else 'likely'}: {reason}"
        questions.extend([f"{key}: is it {value!r}? {reason}"] if is_doubtful else [])
        return add()

    try:
        columns = add()
    except LogError:
        is_text = "encoding" not in read and files.kind == "csv"
        encodings = next(filter(None, map(likely_encodings, files.read)), {}) if is_text else {}
        if not encodings:
            raise
        listed = ", ".join(f"{word!r} in {encoding}" for encoding, word in encodings.items())
        reason = f"it is not UTF-8, and has words such as {listed}"
        columns = change("encoding", next(iter(encodings)), reason, len(encodings) > 1)
    if files.takes("decimal") and "decimal" not in read:
        texts = [name for name, kind in columns.items() if kind == "VARCHAR"]
        commas = decimal_commas(relation, texts, engine.rows)
        for column, example in sorted(commas.items(), key=lambda one: _is_of_thousands(one[1]))[:1]:
            reason = f"{column} has values such as {example}"
            columns = change("decimal", ",", reason, _is_of_thousands(example))
    return tuple(columns), Origin(read=read, reasons=reasons, questions=tuple(questions))


def _is_of_thousands(number: str) -> bool:
    """Tell whether a comma may as well stand between thousands."""
    return re.fullmatch(r"[+-]?\d{1,3},\d{3}", number.strip()) is not None


def _members(engine: DuckDBEngine, file: Path, read: Mapping[str, str]) -> list[Path]:
    """List the logs of a folder that holds several; else the file or folder itself."""
    if not file.is_dir():
        return [file]
    inside = sorted(one for one in file.iterdir() if one.name[0] not in "._")
    logs = [one for one in inside if is_table(one) or one.is_dir()]
    names = {_words_of(one) for one in logs}
    if not 1 < len(names) <= FEW or any("=" in one.name for one in logs):
        return [file]
    kinds = {columns for one in logs for columns, _ in _readings(engine, one, read)}
    return [file] if len(kinds) == 1 else logs


def _words_of(path: Path) -> tuple[str, ...]:
    """Split the name of a file into words, without numbers, such as those of parts and days."""
    return tuple(word for word in words.words(path.name.split(".")[0]) if not word.isdigit())


def _name(file: Path) -> str:
    """Name a table by its file, or by the folder of files that are called by numbers."""
    path = real(file)
    return (path if _words_of(path) else path.parent).name.split(".")[0]


def _files_by_variant(files: Sequence[Path]) -> dict[str, list[str]]:
    """Return variant → its files, where their names differ in it; empty where none is a control."""
    every = files_of("files", LogSource(path=[str(file) for file in files]), Path()).read
    top = Path(os.path.commonpath([Path(file).parent for file in every]))
    named = {
        file: [w for part in Path(file).relative_to(top).parts for w in _words_of(Path(part))]
        for file in every
    }
    common = set.intersection(*({*own} for own in named.values()))
    variants: dict[str, list[str]] = {}
    for file, own in named.items():
        variants.setdefault("_".join(w for w in own if w not in common), []).append(file)
    if not 1 < len(variants) <= guess.MOST_VARIANTS or not any(map(guess.names_control, variants)):
        return {}
    return {variant: _shortened(own) for variant, own in variants.items()}


def _shortened(files: list[str]) -> list[str]:
    """Name a folder in place of all of its files."""
    top = os.path.commonpath([Path(file).parent for file in files])
    is_all = len(files) > 1 and files_of("files", LogSource(path=top), Path()).read == files
    return [top] if is_all else files


def _from(folder: Path, path: str) -> str:
    """Return a path as the experiment file in a folder names it."""
    own, home = real(path), real(folder)
    return (own.relative_to(home) if own.is_relative_to(home) else own).as_posix()


def _parts(engine: Engine, table: Table, is_alone: bool) -> Iterator[Table]:
    """Part a table by the type of its rows: what units saw, and what they did.

    What they saw may be in another table, if it is not alone.
    """
    column = next(filter(_types_rows, table.columns), None)
    is_clicked = any(one.named("click") for one in table.columns)
    if column is None or is_clicked or not any(one.named("unit") for one in table.columns):
        yield table
        return
    listed = ", ".join(map(repr, column.values))
    shown = sorted(filter(says_shown, column.values), key=says_shown, reverse=True)
    is_coded = column.kind != "text"
    if is_coded or (is_alone and not shown):
        question = f"{column.name}: which of {listed} is an impression, and which a click?"
        is_doubtful = is_coded or any(words.says(value, "clicks") for value in column.values)
        yield guess.asked(table, question) if is_doubtful else table
        return
    # Names of types of rows need no quotes.
    name = column.name if column.name.isidentifier() else quoted(column.name)
    for place, value in enumerate(column.values):
        relation, where = f"{table.relation}_{place}", f"{name} = {literal(value)}"
        part = guess.rows_where(engine, table, relation, where)
        part = replace(part, origin=replace(part.origin, name=value))
        question = f"{column.name}: are the impressions {value!r}? The types are {listed}"
        yield guess.asked(part, question) if len(shown) > 1 and value == shown[0] else part


def says_shown(name: str) -> int:
    """Say how well a name says that rows are what units saw; 0 where it does not."""
    listed = words.LISTS["shown"]
    places = (len(listed) - listed[word] for word in words.words(name) if word in listed)
    return max(places, default=0)


def _types_rows(column: Column) -> bool:
    """Say whether a column says what a row is, in words or in codes."""
    if not column.named("event_type") or not 2 <= column.distinct <= FEW:
        return False
    if column.kind == "text":
        return any(words.says(value, *DONE) for value in column.values)
    return column.kind == "integer" and words.words(column.name)[1:] == ("type",)
