"""The columns of each file of a log, to see which files lack one that others have.

`logs/files.py` asks it before a log of several files is analysed. It reads no rows: of Parquet the
footers, of text what DuckDB needs to tell the columns.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from abeval.engines.duckdb_errors import log_errors
from abeval.engines.sources import Files, exact, partitions
from abeval.engines.sql import literal


def columns_of_files(log: str, files: Files) -> Mapping[str, frozenset[str]]:
    """The columns of each file of a log, in lower case; folders of partitions count.

    Raises:
        LogError: A file cannot be read.
    """
    what = f"{log} cannot be read from {Path(files.read[0]).parent}"
    with log_errors(what, "check that the files are complete"), duckdb.connect() as connection:
        if files.kind == "parquet":
            own = _of_footers(connection, files.read)
        else:
            own = {file: _of_text(connection, files.kind, file) for file in files.read}
    return {
        file: frozenset(name.lower() for name in (*names, *partitions([file])))
        for file, names in own.items()
    }


def _of_footers(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> dict[str, list[str]]:
    """The columns of Parquet files, without the fields of nested ones."""
    listed = ", ".join(literal(exact(file)) for file in files)
    rows = connection.execute(
        f"select file_name, name, coalesce(num_children, 0) from parquet_schema([{listed}])"
    ).fetchall()
    columns: dict[str, list[str]] = {}
    # The schema is a tree, each node before its children; the root comes first.
    inner = 0
    for file, name, children in rows:
        if inner:
            inner += children - 1
        elif file not in columns:
            columns[file] = []
        else:
            columns[file].append(name)
            inner = children
    return columns


def _of_text(connection: duckdb.DuckDBPyConnection, kind: str, file: str) -> list[str]:
    options = ", header = true, skip = 0, comment = ''" if kind == "csv" else ", sample_size = -1"
    read = f"read_{kind}({literal(exact(file))}, hive_partitioning = false{options})"
    return [str(name) for name, *_ in connection.execute(f"describe from {read}").fetchall()]
