"""What the files of a log say of themselves: their rows, their columns, and which have no null.

`logs/files.py` asks it before a log is analysed, `study.py` for the page. Of Parquet the
footers tell, of text the lines and what DuckDB needs to tell the columns.
"""

import atexit
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb

from abeval.engines.duckdb_connection import log_errors
from abeval.engines.sources import Files, partitions
from abeval.engines.text_files import listed

Types = Mapping[str, str]
"""Column → its type in a file."""

_FEW_BYTES = 64_000_000
"""Of text files in sum, so that counting their lines takes some tenths of a second."""


def rows_of_files(log: str, files: Files) -> int | None:
    """The number of rows of the files of a log, None if that is not cheap to know.

    A line of text is at least one row, where no row has several lines: without quotes in CSV, and
    if each line of JSON is an object.

    Raises:
        LogError: A file cannot be read.
    """
    counts = _counts(log, files) if files.are_local else [None]
    return None if None in counts else sum(n for n in counts if n is not None)


def rows_by_file(log: str, files: Files) -> dict[str, int | None]:
    """File → its rows, None where `rows_of_files` would not know them.

    Raises:
        LogError: A file cannot be read.
    """
    if not files.are_local:
        return {}
    counts = zip(files.read, _counts(log, files), strict=True)
    return {**dict.fromkeys(files.empty, 0), **dict(counts)}


def _counts(log: str, files: Files) -> list[int | None]:
    """Rows of each file; a file that is read twice is there twice."""
    if files.kind == "parquet":
        with _reader(log, files) as connection:
            read = f"select file_name, num_rows from parquet_file_metadata({listed(files.read)})"
            rows = dict(connection.execute(read).fetchall())
        return [int(rows[file]) for file in files.read]
    if sum(Path(file).stat().st_size for file in files.read) > _FEW_BYTES:
        return [None for _ in files.read]
    return [_of_lines(Path(file), files.kind) for file in files.read]


def _of_lines(file: Path, kind: str) -> int | None:
    """Rows of a text file; None where a row may have several lines, or it is compressed."""
    if file.suffix.lower() in (".gz", ".zst"):
        return None
    rows = -1 if kind == "csv" else 0
    with file.open("rb") as content:
        for line in filter(None, map(bytes.strip, content)):
            is_row = b'"' not in line if kind == "csv" else line[:1] + line[-1:] == b"{}"
            if not is_row:
                return None
            rows += 1
    return max(rows, 0)


def columns_of_files(log: str, files: Files) -> Mapping[str, Types]:
    """The columns of each file of a log, in lower case, with their types; partitions count.

    Raises:
        LogError: A file cannot be read.
    """
    with _reader(log, files) as connection:
        if files.kind == "parquet":
            own = _of_schemas(connection, files.read)
        else:
            own = {file: _of_text(connection, files.kind, file) for file in files.read}
    return {
        file: {name.lower(): kind for name, kind in types.items()}
        | {name.lower(): "partition" for name in partitions([file])}
        for file, types in own.items()
    }


def _of_schemas(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The columns of Parquet files, without the fields of nested ones."""
    rows = connection.execute(
        "select file_name, name, coalesce(num_children, 0), "
        "coalesce(nullif(split_part(logical_type, '(', 1), ''), "
        "case when converted_type = 'UTF8' then 'StringType' end, type, 'nested') "
        f"from parquet_schema({listed(files)})"
    ).fetchall()
    columns: dict[str, dict[str, str]] = {}
    # The schema is a tree, each node before its children; the root comes first.
    inner = 0
    for file, name, children, kind in rows:
        if inner:
            inner += children - 1
        elif file not in columns:
            columns[file] = {}
        else:
            columns[file][name] = _PARQUET_KINDS.get(kind, kind)
            inner = children
    return columns


_PARQUET_KINDS = {
    **dict.fromkeys(("INT32", "INT64", "IntType"), "whole number"),
    "StringType": "text",
}
"""Types of Parquet → what they are called; whole numbers of any size are one."""


def _of_text(connection: duckdb.DuckDBPyConnection, kind: str, file: str) -> dict[str, str]:
    options = ", header = true, skip = 0, comment = ''" if kind == "csv" else ", sample_size = -1"
    read = f"read_{kind}({listed([file])}, hive_partitioning = false{options})"
    described = connection.execute(f"describe from {read}").fetchall()
    return {str(name): _TEXT_KINDS.get(str(type_), str(type_)) for name, type_, *_ in described}


_TEXT_KINDS = {"BIGINT": "number", "HUGEINT": "number", "DOUBLE": "number", "VARCHAR": "text"}
"""Types that DuckDB finds in CSV and JSON → what they are called."""


def without_nulls(files: Sequence[str]) -> frozenset[str]:
    """The columns of Parquet files, in lower case, that have no null, as their footers say."""
    with _database(os.getpid()).cursor() as connection:
        rows = connection.execute(
            f"select lower(path_in_schema) from parquet_metadata({listed(files)}) group by all "
            f"having count(distinct file_name) = {len(set(files))} "
            "and max(coalesce(stats_null_count, 1)) = 0"
        ).fetchall()
    return frozenset(str(name) for (name,) in rows)


@contextmanager
def _reader(log: str, files: Files) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own, to read what files say of themselves."""
    what = f"{log} cannot be read from {Path(files.read[0]).parent}"
    database = _database(os.getpid())
    with log_errors(what, "check that the files are complete"), database.cursor() as connection:
        yield connection


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """A database in which nothing is kept; to open one costs more than the footers of a log.

    A process that was forked has its parent's threads no more, so it opens its own.
    """
    # Files change between two analyses, so nothing of them is cached.
    opened = duckdb.connect(config={"enable_external_file_cache": "false"})
    atexit.register(_close, process)
    return opened


def _close(process: int) -> None:
    if process == os.getpid():
        _database(process).close()
        _database.cache_clear()
