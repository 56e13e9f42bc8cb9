"""Make tables of files: files of the same columns are one, rows of several types are several."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Table
from abeval.drafts.guess import (
    MOST_VARIANTS,
    looked,
    names_control,
    variant_candidates,
    variant_of,
)
from abeval.drafts.others import says_clicks, says_other, says_shown
from abeval.drafts.reading import PLAIN, Reading, readings_of
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.engines.sources import files_of, is_table
from abeval.engines.sql import literal, quoted
from abeval.experiment.sources import LogSource
from abeval.files import real


@dataclass(frozen=True)
class Origin:
    """Where the rows of a table come from.

    Attributes:
        name: The file's, or the type of the rows.
        paths: Variant → paths as the experiment file names them; under the empty name where files
            say no variant. Empty for a frame.
        where: SQL that chooses the rows among those of the files; empty for all.
        question: What a person has to say of the types of rows.
        reading: How the files are read.
    """

    name: str
    paths: Mapping[str, list[str]] = field(default_factory=dict)
    where: str = ""
    question: str = ""
    reading: Reading = PLAIN

    @property
    def files(self) -> list[str]:
        """List the paths of all variants."""
        return [path for paths in self.paths.values() for path in paths]


def tables_of(
    engine: DuckDBEngine, files: Sequence[Path], folder: Path, read: Mapping[str, str]
) -> tuple[list[Table], dict[str, Origin]]:
    """Make tables of files, each a relation of the engine with its origin; `read` says how."""
    groups: dict[object, tuple[Reading, list[Path]]] = {}
    for file in (one for named in files for one in _members(engine, named, read)):
        for reading in readings_of(engine, file, read):
            key = reading.columns, *reading.entries.items()
            groups.setdefault(key, (reading, []))[1].append(file)
    tables, origins = list[Table](), dict[str, Origin]()
    for place, (reading, group) in enumerate(groups.values()):
        relation, paths = f"raw_table_{place}", {"": [str(file) for file in group]}
        entries: dict[str, object] = {"path": paths[""], **reading.entries}
        engine.add_log(relation, LogSource.model_validate(entries))
        table = looked(engine, relation)
        by_variant = files_by_variant(group)
        if by_variant and variant_of(engine, table, False).column is None:
            paths = by_variant
            entries = {**entries, "path": paths}
            engine.add_log(relation, LogSource.model_validate(entries))
            table = looked(engine, relation)
        variants = [*variant_candidates(table), *variant_candidates(table, weakly=True)][:1]
        if flags := [c.name for c in variants if c.kind == "boolean"]:
            # In text files, names of variants are text, such as Yes.
            entries |= {"path": paths.get("", paths), "columns": {"variant": flags[0]}}
            engine.add_log(relation, LogSource.model_validate(entries))
            table = looked(engine, relation)
        named = {variant: [_from(folder, path) for path in own] for variant, own in paths.items()}
        origin = Origin(reading.entries.get("table") or _name(group[0]), named, reading=reading)
        for part, own in _parts(engine, table, origin, is_alone=len(groups) == 1):
            tables.append(part)
            origins[part.relation] = own
    return tables, origins


def _members(engine: DuckDBEngine, file: Path, read: Mapping[str, str]) -> list[Path]:
    """List the logs of a folder that holds several; else the file or folder itself."""
    if not file.is_dir():
        return [file]
    inside = sorted(one for one in file.iterdir() if one.name[0] not in "._")
    logs = [one for one in inside if is_table(one) or one.is_dir()]
    names = {_words_of(one) for one in logs}
    if not 1 < len(names) <= FEW or any("=" in one.name for one in logs):
        return [file]
    columns = {own.columns for one in logs for own in readings_of(engine, one, read)}
    return [file] if len(columns) == 1 else logs


def _words_of(path: Path) -> tuple[str, ...]:
    """Split the name of a file into words, without numbers, such as those of parts and days."""
    return tuple(word for word in words.words(path.name.split(".")[0]) if not word.isdigit())


def _name(file: Path) -> str:
    """Name a table by its file, or by the folder of files that are called by numbers."""
    path = real(file)
    return (path if _words_of(path) else path.parent).name.split(".")[0]


def files_by_variant(files: Sequence[Path]) -> dict[str, list[str]]:
    """Return variant → its files, where their names differ in it; empty where none is a control."""
    every = files_of("files", LogSource(path=[str(file) for file in files]), Path()).read
    top = Path(os.path.commonpath([Path(file).parent for file in every]))
    named = {file: _path_words(Path(file).relative_to(top)) for file in every}
    common = set.intersection(*({*own} for own in named.values()))
    variants: dict[str, list[str]] = {}
    for file, own in named.items():
        variants.setdefault("_".join(w for w in own if w not in common), []).append(file)
    if not 1 < len(variants) <= MOST_VARIANTS or not any(map(names_control, variants)):
        return {}
    return {variant: _shortened(own) for variant, own in variants.items()}


def _path_words(path: Path) -> list[str]:
    return [word for part in path.parts for word in _words_of(Path(part))]


def _shortened(files: list[str]) -> list[str]:
    """Name a folder in place of all of its files."""
    top = os.path.commonpath([Path(file).parent for file in files])
    is_all = len(files) > 1 and files_of("files", LogSource(path=top), Path()).read == files
    return [top] if is_all else files


def _from(folder: Path, path: str) -> str:
    """Return a path as the experiment file in a folder names it."""
    own, home = real(path), real(folder)
    return (own.relative_to(home) if own.is_relative_to(home) else own).as_posix()


def _parts(
    engine: Engine, table: Table, origin: Origin, is_alone: bool
) -> Iterator[tuple[Table, Origin]]:
    """Part a table by the type of its rows: what units saw, and what they did.

    What they saw may be in another table, if it is not alone.
    """
    column = next(filter(_types_rows, table.columns), None)
    is_clicked = any(words.named(c.name, words.CLICK) is not None for c in table.columns)
    if column is None or is_clicked or not any(map(_names_unit, table.columns)):
        yield table, origin
        return
    values = [value for value, _ in column.values]
    listed = ", ".join(map(repr, values))
    shown = sorted(filter(says_shown, values), key=says_shown, reverse=True)
    is_coded = column.kind != "text"
    if is_coded or (is_alone and not shown):
        question = f"{column.name}: which of {listed} is an impression, and which a click?"
        is_doubtful = is_coded or any(map(says_clicks, values))
        yield table, replace(origin, question=question) if is_doubtful else origin
        return
    for place, value in enumerate(values):
        relation = f"{table.relation}_{place}"
        # Names of types of rows need no quotes.
        name = column.name if column.name.isidentifier() else quoted(column.name)
        where = f"{name} = {literal(value)}"
        engine.view(relation, f"select * from {quoted(table.relation)} where {where}")
        is_doubtful = len(shown) > 1 and value == shown[0]
        question = f"{column.name}: are the impressions {value!r}? The types are {listed}"
        part = replace(origin, name=value, where=where, question=question if is_doubtful else "")
        yield looked(engine, relation), part


def _names_unit(column: Column) -> bool:
    return words.named(column.name, words.UNIT) is not None


def _types_rows(column: Column) -> bool:
    """Say whether a column says what a row is, in words or in codes."""
    if words.named(column.name, words.EVENT_TYPE) is None or not 2 <= column.distinct <= FEW:
        return False
    if column.kind == "text":
        return any(says_other(value) for value, _ in column.values)
    return column.kind == "integer" and words.words(column.name)[1:] == ("type",)
