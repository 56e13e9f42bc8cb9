"""The columns of each file of a log, to see which files lack one that others have.

`logs/files.py` asks it before a log of several files is analysed. It reads no rows: of Parquet the
footers, of text what DuckDB needs to tell the columns.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from abeval.engines.duckdb_errors import log_errors
from abeval.engines.footers import reader
from abeval.engines.sources import Files, exact, partitions
from abeval.engines.sql import literal

Types = Mapping[str, str]
"""Column → its type in a file."""


def columns_of_files(log: str, files: Files) -> Mapping[str, Types]:
    """The columns of each file of a log, in lower case, with their types; partitions count.

    Raises:
        LogError: A file cannot be read.
    """
    what = f"{log} cannot be read from {Path(files.read[0]).parent}"
    with log_errors(what, "check that the files are complete"), reader() as connection:
        if files.kind == "parquet":
            own = _of_footers(connection, files.read)
        else:
            own = {file: _of_text(connection, files.kind, file) for file in files.read}
    return {
        file: {name.lower(): kind for name, kind in types.items()}
        | {name.lower(): "partition" for name in partitions([file])}
        for file, types in own.items()
    }


def _of_footers(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The columns of Parquet files, without the fields of nested ones."""
    listed = ", ".join(literal(exact(file)) for file in files)
    rows = connection.execute(
        "select file_name, name, coalesce(num_children, 0), "
        "coalesce(nullif(split_part(logical_type, '(', 1), ''), "
        "case when converted_type = 'UTF8' then 'StringType' end, type, 'nested') "
        f"from parquet_schema([{listed}])"
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
            columns[file][name] = _of_kind(kind)
            inner = children
    return columns


def without_nulls(files: Sequence[str]) -> frozenset[str]:
    """The columns of Parquet files, in lower case, that have no null, as their footers say."""
    listed = ", ".join(literal(exact(file)) for file in files)
    with reader() as connection:
        rows = connection.execute(
            "select lower(path_in_schema) from "
            f"parquet_metadata([{listed}]) group by all "
            f"having count(distinct file_name) = {len(set(files))} "
            "and max(coalesce(stats_null_count, 1)) = 0"
        ).fetchall()
    return frozenset(str(name) for (name,) in rows)


def _of_text(connection: duckdb.DuckDBPyConnection, kind: str, file: str) -> dict[str, str]:
    options = ", header = true, skip = 0, comment = ''" if kind == "csv" else ", sample_size = -1"
    read = f"read_{kind}({literal(exact(file))}, hive_partitioning = false{options})"
    described = connection.execute(f"describe from {read}").fetchall()
    return {str(name): _TEXT_KINDS.get(str(type_), str(type_)) for name, type_, *_ in described}


_TEXT_KINDS = {"BIGINT": "number", "HUGEINT": "number", "DOUBLE": "number", "VARCHAR": "text"}
"""Types that DuckDB finds in CSV and JSON → what they are called."""


def _of_kind(kind: str) -> str:
    """A type of Parquet; whole numbers of any size are one."""
    return _PARQUET_KINDS.get(kind, kind)


_PARQUET_KINDS = {
    "INT32": "whole number",
    "INT64": "whole number",
    "IntType": "whole number",
    "StringType": "text",
}
