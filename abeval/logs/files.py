"""Find facts about the files of a log: rows, and missing or mistyped columns.

Of Parquet the footers tell, of text the lines and what DuckDB needs to tell the columns.
"""

import atexit
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb

from abeval.engines import sources
from abeval.engines.duckdb_connection import NO_EXTENSIONS, log_errors, open_database
from abeval.engines.sources import Files, find_partition_columns
from abeval.engines.text_files import write_file_list
from abeval.experiment.sources import LogSource

Types = Mapping[str, str]
"""Column → its type in a file."""

_FEW_BYTES = 64_000_000
"""Largest size of text files whose lines are counted, in some tenths of a second."""


def count_file_rows(log: str, files: Files) -> int | None:
    """Count the rows of the files of a log; None if that is not cheap.

    A line of text counts as a row: without quotes in CSV, and if each line of JSON is an object.
    """
    by_file = count_rows_by_file(log, files)
    counts = [by_file.get(file) for file in files.read]
    return None if None in counts else sum(rows for rows in counts if rows is not None)


def count_rows_by_file(log: str, files: Files) -> dict[str, int | None]:
    """Count the rows of each file, None where that is not cheap."""
    if not files.are_local or files.are_copied or files.kind == "duckdb":
        return {}
    rows: dict[str, int | None] = dict.fromkeys(files.empty, 0)
    if files.kind == "parquet":
        with _open_reader(log, files) as connection:
            read = (
                "select file_name, num_rows from "
                f"parquet_file_metadata({write_file_list(files.read)})"
            )
            return rows | dict(connection.execute(read).fetchall())
    if sum(Path(file).stat().st_size for file in files.read) > _FEW_BYTES:
        return rows | dict.fromkeys(files.read)
    return rows | {file: _count_lines(Path(file), files.kind) for file in files.read}


def _count_lines(file: Path, kind: str) -> int | None:
    """Count the rows of a text file; None where lines may not be rows."""
    if file.suffix.lower() in (".gz", ".zst"):
        return None
    # The header of CSV is no row.
    rows = -1 if kind == "csv" else 0
    with file.open("rb") as content:
        for line in filter(None, map(bytes.strip, content)):
            is_row = b'"' not in line if kind == "csv" else line[:1] + line[-1:] == b"{}"
            if not is_row:
                return None
            rows += 1
    return max(rows, 0)


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_TEXT_TYPES = {**dict.fromkeys(("BIGINT", "HUGEINT", "DOUBLE"), "number"), "VARCHAR": "text"}
_PARQUET_TYPES = {
    **dict.fromkeys([*_INTEGERS, *(f"U{kind}" for kind in _INTEGERS)], "whole number"),
    "VARCHAR": "text",
}
"""DuckDB's type → what it is called; whole numbers of any size are one type."""

_OPTIONS = {"csv": "skip = 0, comment = ''", "json": "sample_size = -1"}


def read_file_columns(log: str, files: Files) -> Mapping[str, Types]:
    """Read the columns of each file, in lower case, with their types."""
    columns, called = dict[str, Types](), _PARQUET_TYPES if files.kind == "parquet" else _TEXT_TYPES
    with _open_reader(log, files) as connection:
        for file in dict.fromkeys(files.read):
            options = [_OPTIONS.get(files.kind, ""), "hive_partitioning = false", files.dialect]
            read = (
                f"read_{files.kind}({', '.join(filter(None, [write_file_list([file]), *options]))})"
            )
            described = connection.execute(f"describe from {read}").fetchall()
            columns[file] = {
                **{name.lower(): called.get(kind, kind) for name, kind, *_ in described},
                # A folder such as day=2026-09-14 gives its files a column.
                **{name.lower(): "partition" for name in find_partition_columns([file])},
            }
    return columns


def find_columns_without_nulls(files: Sequence[str]) -> frozenset[str]:
    """Find the columns of Parquet files without a null, by their footers."""
    with _open_process_database(os.getpid()).cursor() as connection:
        rows = connection.execute(
            f"select lower(path_in_schema) from parquet_metadata({write_file_list(files)}) "
            "group by all "
            f"having count(distinct file_name) = {len(set(files))} "
            # A footer without the count says nothing, so the column may have nulls.
            "and max(coalesce(stats_null_count, 1)) = 0"
        ).fetchall()
    return frozenset(str(name) for (name,) in rows)


@contextmanager
def _open_reader(log: str, files: Files) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection that reads what files say of themselves."""
    what = f"{log} cannot be read from {Path(files.read[0]).parent}"
    database = _open_process_database(os.getpid())
    with log_errors(what, "check that the files are complete"), database.cursor() as connection:
        yield connection


@cache
def _open_process_database(process: int) -> duckdb.DuckDBPyConnection:
    """Open one database for a process, not for its forks."""
    # Opening a database costs more than reading the footers of a file.
    # Files change between two analyses, so nothing of them is cached.
    config = {**NO_EXTENSIONS, "enable_external_file_cache": "false"}
    # They differ from call to call, and no SQL stands in them: any file of this machine is opened.
    opened = open_database(config=config, folders=[os.sep])
    atexit.register(_close, process)
    return opened


def _close(process: int) -> None:
    if process == os.getpid():
        _open_process_database(process).close()
        _open_process_database.cache_clear()


_SHOWN = 5


@dataclass(frozen=True)
class FileFacts:
    """Hold facts about the files of a log.

    Attributes:
        files: All that are read; empty if the log is no files of this machine.
        empty: Those without a byte.
        lacking: Column in lower case → the files that lack it, if others have it.
        rows: Number of their rows; None if that is not cheap to count.
        are_lines: Whether rows were counted as lines, of which one row may have several.
        drift: Column in lower case → type → the files that have it so, if files differ.
        has_types: Whether files say the types of their columns; CSV does not.
    """

    files: Sequence[str] = ()
    empty: Sequence[str] = ()
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: int | None = None
    are_lines: bool = False
    drift: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    has_types: bool = True


def read_file_facts(log: str, source: LogSource, folder: Path) -> FileFacts:
    """Read the footers of Parquet files, or all lines of short text files."""
    if not source.paths:
        return FileFacts()
    files = sources.find_files(log, source, folder)
    if not files.are_local or files.are_copied or files.kind == "duckdb":
        return FileFacts(empty=files.empty)
    columns = read_file_columns(log, files) if len({*files.read}) > 1 else {}
    lacking, drift = dict[str, list[str]](), dict[str, dict[str, list[str]]]()
    for name in sorted(frozenset().union(*columns.values())):
        for file in dict.fromkeys(files.read):
            if name in columns[file]:
                by_type = drift.setdefault(name, {})
                by_type.setdefault(columns[file][name], []).append(file)
            else:
                lacking.setdefault(name, []).append(file)
    return FileFacts(
        files=files.read,
        empty=files.empty,
        lacking=lacking,
        rows=count_file_rows(log, files),
        are_lines=files.kind != "parquet",
        drift={name: by_type for name, by_type in drift.items() if len(by_type) > 1},
        has_types=files.kind != "csv",
    )


def describe_mixed_id(facts: FileFacts, column: str) -> str | None:
    """Say which files have an id as text and which as a number; else None.

    Read as one type, 12 and `0012` would be two ids. Ids of CSV are text anyhow.
    """
    by_type = facts.drift.get(column.lower(), {})
    texts, numbers = (
        [file for kind, files in by_type.items() if kind.startswith(kinds) for file in files]
        for kinds in (_TEXTS, _NUMBERS)
    )
    if not (texts and numbers and facts.has_types):
        return None
    return f"text in {_name_files(texts)}, but a number in {_name_files(numbers)}"


_TEXTS = ("text", "UUID")
_NUMBERS = ("number", "whole number", "DOUBLE", "FLOAT", "DECIMAL")


def describe_files_with_type(facts: FileFacts, column: str, kind: str) -> str:
    """Write ` in FILE, …` of the files whose column has this type."""
    files = facts.drift.get(column.lower(), {}).get(kind, ())
    return f" in {_name_files(files)}" if files else ""


def list_partial_columns(facts: FileFacts, read: Sequence[str]) -> list[str]:
    """List the columns that are read, but that some files lack."""
    return [column for column in read if column.lower() in facts.lacking]


def write_file_notes(
    log: str, facts: FileFacts, read: Sequence[str], mapped: Sequence[str]
) -> Iterator[str]:
    """Write notes on empty files, and on columns that files lack or type otherwise.

    `read` are the columns that are read, `mapped` those with canonical names.
    """
    if facts.empty:
        count = "1 file" if len(facts.empty) == 1 else f"{len(facts.empty):,} files"
        yield f"The {log} have {count} without a byte: {_name_files(facts.empty)}."
    for column in list_partial_columns(facts, read):
        lack = facts.lacking[column.lower()]
        yield (
            f"{len(lack):,} of {len(facts.files):,} files of the {log} lack the column {column!r}, "
            f"which is null in their rows: {_name_files(lack)}."
        )
    for column in mapped:
        by_type = facts.drift.get(column.lower(), {})
        if by_type:
            (most, usual), *rare_types = sorted(by_type.items(), key=lambda entry: -len(entry[1]))
            rare_text = "; ".join(f"{kind} in {_name_files(files)}" for kind, files in rare_types)
            yield (
                f"The column {column!r} of the {log} is {most} in {len(usual):,} of "
                f"{len(facts.files):,} files, but {rare_text}: its values are read as one type "
                "that holds them all."
            )


def _name_files(files: Sequence[str]) -> str:
    text = ", ".join(Path(file).name for file in files[:_SHOWN])
    return text if len(files) <= _SHOWN else f"{text} and {len(files) - _SHOWN} more"
