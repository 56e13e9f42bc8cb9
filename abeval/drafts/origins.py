"""Make tables of files and frames.

Files of the same columns are one table; rows of several types are several.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Origin, Table
from abeval.drafts.reshape import reshape_table
from abeval.drafts.variants import names_control
from abeval.engines.copies import guess_encodings
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sources import Files, find_files, is_table
from abeval.engines.sql import Engine, count_rows, literal, quote
from abeval.engines.text_files import find_decimal_commas
from abeval.errors import LogError
from abeval.experiment.load import check_read_options, make_source
from abeval.files import resolve_path

DONE = ("clicks", "outcome", "events")
"""Roles of words for what units did, not saw."""


def make_tables(
    engine: DuckDBEngine,
    files: Sequence[Path],
    folder: Path,
    read: Mapping[str, str],
    whence: Origin,
) -> list[Table]:
    """Make tables of files, each a relation of the engine.

    `whence` has the name of their log, if it is given, and columns that the caller names.
    """
    groups: dict[Any, tuple[Origin, list[Path]]] = {}
    for file in (member for path in files for member in _list_members(engine, path, read)):
        for columns, origin in _read_tables(engine, file, read):
            # Files with the same columns, read alike, are one table.
            key = columns, *origin.read.items()
            groups.setdefault(key, (origin, []))[1].append(file)
    gone = _find_partial_columns(groups)
    if gone:
        # Files of one variant each need not have the same columns.
        origin, *_ = (origin for origin, _ in groups.values())
        groups = {None: (origin, [file for _, group in groups.values() for file in group])}
    tables = list[Table]()
    for index, (origin, group) in enumerate(groups.values()):
        relation = f"raw_{whence.name or 'table'}_{index}"
        origin = replace(origin, name=whence.name, named=whence.named)
        tables.append(_make_table(engine, relation, origin, group, folder, gone))
    return [part for table in tables for part in split_types(engine, table, len(tables) == 1)]


def _find_partial_columns(groups: Mapping[Any, tuple[Origin, list[Path]]]) -> list[str]:
    """List the columns that only some of the files of a table have.

    Files are of one table if their names say the variant, and most of their columns are the same.
    """
    kinds = [{*columns} for columns, *_ in groups]
    files = [file for _, group in groups.values() for file in group]
    is_one_each = len(files) == len(kinds) > 1 and all(file.is_file() for file in files)
    if not is_one_each or len({file.suffix for file in files}) > 1:
        return []
    union, common = set.union(*kinds), set.intersection(*kinds)
    reads = [origin.read for origin, _ in groups.values()]
    if 2 * len(common) < len(union) or any(read != reads[0] for read in reads):
        return []
    variants = _group_by_variant(files, reads[0].get("format", "auto"))
    return sorted(union - common) if len(variants) == len(files) else []


def _make_table(
    engine: DuckDBEngine,
    relation: str,
    origin: Origin,
    files: Sequence[Path],
    folder: Path,
    gone: Sequence[str],
) -> Table:
    """Make one table of files; each file may have the rows of one variant."""
    paths = {"": [str(file) for file in files]}
    origin = replace(origin, name=origin.name or origin.read.get("table") or _name_table(files[0]))

    def read_options() -> dict[str, object]:
        return {"path": paths.get("", paths), **origin.read}

    def add_table(**options: object) -> Table:
        engine.add_log(relation, make_source({**read_options(), **options}))
        relative = {
            variant: [_make_relative(folder, path) for path in group]
            for variant, group in paths.items()
        }
        table = reshape_table(engine, relation, replace(origin, paths=relative), gone)
        return guess.inspect_table(engine, table)

    table = add_table()
    files_by_variant = _group_by_variant(files, origin.read.get("format", "auto"))
    if files_by_variant and guess.guess_variant(engine, table).column is None:
        paths = files_by_variant
        table = add_table()
    list_candidates = guess.list_variant_candidates
    variants = list_candidates(table) or list_candidates(table, weakly=True)
    if variants and variants[0].kind == "boolean":
        # In text files, names of variants are text, such as Yes.
        table = add_table(columns={"variant": variants[0].name})
    is_text = origin.read.get("format", "csv") == "csv" and files[0].suffix != ".parquet"
    return _add_time_format(engine, table, relation, read_options()) if is_text else table


def _add_time_format(
    engine: DuckDBEngine, table: Table, relation: str, source: Mapping[str, object]
) -> Table:
    """Add the format of a text file's times to its origin; ask where several fit."""
    times = [column for column in guess.list_times(table) if column.kind in ("time", "text")]
    if not times or times[0].name not in engine.columns(relation):
        return table
    name, formats = times[0].name, find_time_formats(engine, relation, source, times[0].name)
    if not formats:
        return table
    origin = replace(table.origin, formats={name: formats[0]})
    choices, doubt = " or ".join(formats), "No value shows which number is the day"
    question = f"time: is {name} written as {choices}? {doubt}"
    table = replace(table, origin=origin)
    return guess.add_question(table, question) if len(formats) > 1 else table


_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_TIMES = tuple(
    f"{day.replace('/', mark)}{clock}"
    for clock in _CLOCKS
    for mark in "/.-"
    for day in ("%m/%d/%Y", "%d/%m/%Y")
)
"""Formats of times in which the day may be before the month, or after it."""


def find_time_formats(
    engine: DuckDBEngine, table: str, source: Mapping[str, object], column: str
) -> list[str]:
    """Find the formats that read every time of a text column.

    The list is empty if the column needs no format.
    """
    # As a log with times, under a name of its own: Parquet is a view, and text a table.
    relation = f"raw_events_{table}"
    try:
        engine.add_log(relation, make_source({**source, "columns": {"ts": column}}))
    except LogError:
        # Names of variants stay text.
        engine.add_log(relation, make_source({**source, "columns": {"variant": column}}))
        text = f"trim({quote(column)})"
        tests = ", ".join(
            f"count(try_strptime({text}, {literal(form)})) = count({text})" for form in _TIMES
        )
        (fits,) = engine.rows(f"select {tests} from {quote(relation)}")
        return [form for form, is_so in zip(_TIMES, fits, strict=True) if is_so]
    return []


def _read_tables(
    engine: DuckDBEngine, file: Path, options: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], Origin]]:
    """Yield the columns of a file, or of each table of a database, and its origin."""
    format = check_read_options(options).get("format", "auto")
    plain = make_source({"path": str(file), "format": format})
    files = find_files("file", plain, Path())
    usable = {key: value for key, value in options.items() if files.takes(key)}
    tables = [] if "table" in usable else engine.tables_in(files)
    several = [{**usable, "table": table} for table in tables] if len(tables) > 1 else [usable]
    for entries in several:
        yield _read_file(engine, files, file, entries)


def _read_file(
    engine: DuckDBEngine, files: Files, file: Path, read: dict[str, str]
) -> tuple[tuple[str, ...], Origin]:
    """Read a file; find its encoding and decimal sign if the defaults fail.

    Args:
        engine: Where the file becomes a relation.
        files: The file, as found in its folder.
        file: Its path.
        read: Options of reading, such as `encoding`; those that are found are added.

    Returns the names of its columns, and where they come from.
    """
    relation = f"raw_file {file} {read.get('table', '')}"
    reasons, questions = dict[str, str](), list[str]()

    def add() -> Mapping[str, str]:
        engine.add_log(relation, make_source({"path": str(file), **read}))
        # It is read again under its own name: the engine keeps what it has parsed.
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
        encodings = next(filter(None, map(guess_encodings, files.read)), {}) if is_text else {}
        if not encodings:
            raise
        examples = ", ".join(f"{word!r} in {encoding}" for encoding, word in encodings.items())
        reason = f"it is not UTF-8, and has words such as {examples}"
        columns = change("encoding", next(iter(encodings)), reason, len(encodings) > 1)
    if files.takes("delimiter") and "delimiter" not in read and "::" in "".join(columns):
        columns = change("delimiter", "::", "MovieLens writes so", False)
    if files.takes("header") and "header" not in read and _is_row(engine, relation, columns):
        columns = change("header", "false", "the first row has values, like the others", False)
    if files.takes("decimal") and "decimal" not in read:
        texts = [name for name, kind in columns.items() if kind == "VARCHAR"]
        commas = find_decimal_commas(relation, texts, engine.rows)
        # A number that leaves no doubt is the better witness.
        column = min(commas, key=lambda name: _separates_thousands(commas[name]), default="")
        if column:
            reason = f"{column} has values such as {commas[column]}"
            columns = change("decimal", ",", reason, _separates_thousands(commas[column]))
    return tuple(columns), Origin(read=read, reasons=reasons, questions=tuple(questions))


def _is_row(engine: Engine, relation: str, columns: Mapping[str, str]) -> bool:
    """Tell whether the names of the columns are values.

    The names are values if the name of every column of numbers or times is a number or a time.
    """
    sample = f"(select * from {quote(relation)} limit 1000)"
    kinds = [name for name, kind in columns.items() if not kind.startswith("VARCHAR")]
    is_value = re.compile(r"-?\d+([.]\d+)?(_\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*")
    numbers = [name for name in kinds if is_value.fullmatch(name)]
    return bool(numbers) and len(numbers) == len(kinds) and count_rows(engine, sample) > 0


def _separates_thousands(number: str) -> bool:
    """Tell whether the comma of a number may separate thousands."""
    # 1,234 may be either number; 12,34 cannot be.
    return re.fullmatch(r"[+-]?\d{1,3},\d{3}", number.strip()) is not None


def _list_members(engine: DuckDBEngine, file: Path, read: Mapping[str, str]) -> list[Path]:
    """List the logs in a folder of several logs; else the file or folder itself."""
    if is_table(file) or not file.is_dir():
        return [file]
    inside = sorted(path for path in file.iterdir() if path.name[0] not in "._")
    logs = [path for path in inside if is_table(path) or path.is_dir()]
    names = {_split_file_name(path) for path in logs}
    # `day=2026-09-14` is a partition of one log.
    if not 1 < len(names) <= FEW or any("=" in path.name for path in logs):
        return [file]
    kinds = {columns for path in logs for columns, _ in _read_tables(engine, path, read)}
    return [file] if len(kinds) == 1 else logs


def _split_file_name(path: Path) -> tuple[str, ...]:
    """Split the name of a file into words, without numbers."""
    # Numbers are those of parts and days, which do not make another log.
    return tuple(word for word in words.split(path.name.split(".")[0]) if not word.isdigit())


def _name_table(file: Path) -> str:
    """Name a table by its file; files with numbers for names, by their folder."""
    path = resolve_path(file)
    return (path if _split_file_name(path) else path.parent).name.split(".")[0]


def _group_by_variant(files: Sequence[Path], format: str) -> dict[str, list[str]]:
    """Group files by the variant in their names; empty if none names a control."""
    paths = make_source({"path": [str(file) for file in files], "format": format})
    every = find_files("files", paths, Path()).read
    top = Path(os.path.commonpath([Path(file).parent for file in every]))
    name_words = {
        file: [
            w for part in Path(file).relative_to(top).parts for w in _split_file_name(Path(part))
        ]
        for file in every
    }
    common = set.intersection(*({*entries} for entries in name_words.values()))
    variants: dict[str, list[str]] = {}
    for file, entries in name_words.items():
        variants.setdefault("_".join(w for w in entries if w not in common), []).append(file)
    if not 1 < len(variants) <= guess.MOST_VARIANTS or not any(map(names_control, variants)):
        return {}
    return {variant: _shorten_paths(entries, format) for variant, entries in variants.items()}


def _shorten_paths(files: list[str], format: str) -> list[str]:
    """Replace all files of a folder by the folder."""
    if len(files) == 1:
        return files
    top = os.path.commonpath([Path(file).parent for file in files])
    folder = make_source({"path": top, "format": format})
    return [top] if find_files("files", folder, Path()).read == files else files


def _make_relative(folder: Path, path: str) -> str:
    """Return a path relative to the folder of the experiment file, if it is inside."""
    target, home = resolve_path(path), resolve_path(folder)
    return (target.relative_to(home) if target.is_relative_to(home) else target).as_posix()


def split_types(engine: Engine, table: Table, is_alone: bool) -> Iterator[Table]:
    """Split a table by the types of its rows, such as impressions and clicks.

    Impressions may also be in another table, unless the table is alone.
    """
    column = next(filter(_holds_row_types, table.columns), None)
    is_clicked = any(candidate.has_role_name("click") for candidate in table.columns)
    has_unit = bool(table.clusters) or any(c.has_role_name("unit") for c in table.columns)
    if column is None or is_clicked or not has_unit:
        yield table
        return
    type_names = ", ".join(map(repr, column.values))
    rate = rate_impression_name
    views = sorted(filter(rate, column.values), key=rate, reverse=True)
    if column.kind != "text":
        question = f"{column.name}: which of {type_names} is an impression, and which a click?"
        yield guess.add_question(table, question)
        return
    if is_alone and not views:
        first = next(iter(column.values))
        # A funnel begins with what most rows are; a table of orders does not.
        if words.mentions_role(first, *DONE):
            yield table
            return
        views = [first]
    is_doubtful = len(views) > 1 or not any(map(rate, views))
    # Names of types of rows need no quotes, but words of SQL do, such as `order`.
    keywords = "duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
    is_word = count_rows(engine, f"{keywords} and keyword_name = {literal(column.name.lower())}")
    name = quote(column.name) if is_word or not column.name.isidentifier() else column.name
    for index, value in enumerate(column.values):
        relation, where = f"{table.relation}_{index}", f"{name} = {literal(value)}"
        part = guess.filter_rows(engine, table, relation, where)
        part = replace(part, origin=replace(part.origin, name=value))
        question = f"{column.name}: are the impressions {value!r}? The types are {type_names}"
        is_asked = is_doubtful and value in views[:1]
        yield guess.add_question(part, question) if is_asked else part


def rate_impression_name(name: str) -> int:
    """Rate how clearly a name means impressions; 0 if it does not."""
    ranks = words.LISTS["shown"]
    scores = (len(ranks) - ranks[word] for word in words.split(name) if word in ranks)
    return max(scores, default=0)


def _holds_row_types(column: Column) -> bool:
    """Tell whether a column has the types of rows, in words or in codes."""
    if not 2 <= column.distinct <= FEW:
        return False
    if column.kind == "text":
        does = any(words.mentions_role(value, *DONE) for value in column.values)
        sees = any(map(rate_impression_name, column.values))
        return does and (sees or column.has_role_name("event_type"))
    if not column.has_role_name("event_type"):
        return False
    return column.kind == "integer" and words.split(column.name)[1:] == ("type",)
