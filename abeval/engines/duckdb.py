"""DuckDB, embedded: the default engine."""

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pandas as pd

from abeval.engines.protocol import Cell
from abeval.errors import LogError, QueryError
from abeval.experiment.model import EngineOptions, LogSource
from abeval.sql import literal, quoted

_READERS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class DuckDBEngine:
    """One in-memory DuckDB for one run; what does not fit spills to the temporary folder.

    Args:
        options: Memory, threads and temporary folder.
        folder: Where relative paths of logs start.
        connection: The caller's own connection, whose tables logs may name; it is not closed.
    """

    def __init__(
        self,
        options: EngineOptions | None = None,
        folder: Path = Path(),
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._folder = folder
        self._owned = connection is None
        self._schema = "abeval_run"
        try:
            self._connection = connection or duckdb.connect(config=_config(options))
        except duckdb.Error as error:
            raise QueryError(
                f"DuckDB does not take these [engine] options: {_first_line(error)}"
            ) from error
        for statement in (
            "set timezone = 'UTC'",
            f"create or replace temp macro abeval_h60(salt, unit) as {_H60}",
        ):
            self._connection.execute(statement)

    def add_log(self, name: str, source: LogSource) -> None:
        """Make files or a table readable as the relation `name`."""
        relation = self._relation(name, source)
        kind = "table" if "read_csv" in relation or "read_json" in relation else "view"
        try:
            self._connection.execute(
                f"create or replace temp {kind} {quoted(name)} as select * from {relation}"
            )
            self._connection.execute(f"select * from {quoted(name)} limit 1").fetchall()
        except duckdb.Error as error:
            where = ", ".join(source.paths) or source.table
            hint = "is the file whole, and of the kind its name says? `format` can name the kind"
            raise LogError(
                f"{_plain(name)} cannot be read from {where}: {_first_line(error)}", hint
            ) from error

    def add_frame(self, name: str, frame: object) -> None:
        """Copy a frame (pandas, Polars, Arrow, a relation) into the relation `name`."""
        source = frame if isinstance(frame, pd.DataFrame) else _ArrowStream(frame, _plain(name))
        self._connection.register("abeval_frame", source)
        self._connection.execute(
            f"create or replace temp table {quoted(name)} as select * from abeval_frame"
        )
        self._connection.unregister("abeval_frame")

    def columns(self, relation: str) -> Mapping[str, str]:
        """Column names and types of a relation, in its order."""
        described = self.rows(f"describe {quoted(relation)}")
        return {str(row[0]): str(row[1]) for row in described}

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        self._execute(f"create or replace temp view {quoted(name)} as {sql}")

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        self._execute(f"create or replace temp table {quoted(name)} as {sql}")

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        return self._execute(sql).fetchall()

    def frame(self, sql: str) -> pd.DataFrame:
        """Run a query and fetch its rows as a frame."""
        return self._execute(sql).df()

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: milliseconds since 1970 of a UTC timestamp expression."""
        return f"epoch_ms({timestamp})"

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """SQL: the local timestamp of an epoch-milliseconds expression."""
        utc = f"make_timestamp({milliseconds} * 1000)"
        if timezone == "UTC":
            return utc
        return f"timezone({literal(timezone)}, timezone('UTC', {utc}))"

    def hash60(self, salt: str, unit: str) -> str:
        """SQL: the `md5_60` of a salt and a unit expression."""
        return f"abeval_h60({literal(salt)}, {unit})"

    def close(self) -> None:
        """Close the connection, unless it is the caller's."""
        if self._owned:
            self._connection.close()

    def _execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(sql)
        except duckdb.Error as error:
            raise QueryError(f"DuckDB could not run a query: {_message(error)}") from error
        except RuntimeError as error:
            # DuckDB hands Ctrl-C on in this shape.
            if "interrupted" in str(error):
                raise KeyboardInterrupt from error
            raise

    def _relation(self, name: str, source: LogSource) -> str:
        if source.table is not None:
            return self._table(source.table, source.database)
        files = self._files(name, source)
        kind = source.format if source.format != "auto" else _kind(files, name)
        listed = "[" + ", ".join(literal(f) for f in files) + "]"
        match kind:
            case "parquet":
                return f"read_parquet({listed}, union_by_name = true, hive_partitioning = {_hive(files)})"
            case "csv":
                return f"read_csv({listed}, union_by_name = true)"
            case _:
                return f"read_json({listed}, union_by_name = true)"

    def _table(self, table: str, database: str | None) -> str:
        parts = ".".join(quoted(part) for part in table.split("."))
        if database is None:
            return parts
        file = self._folder / database
        if not file.exists():
            raise LogError(f"no DuckDB database at {file}", "check logs.*.database")
        alias = quoted(f"abeval_{file.stem}")
        self._connection.execute(
            f"attach if not exists {literal(str(file))} as {alias} (read_only)"
        )
        return f"{alias}.{parts}"

    def _files(self, name: str, source: LogSource) -> list[str]:
        if not source.paths:
            raise LogError(
                f"nothing says where {_plain(name)} are",
                f"give logs.{_plain(name)}.path or .table, or pass a frame from Python",
            )
        return [file for path in source.paths for file in self._matching(name, path)]

    def _matching(self, name: str, path: str) -> list[str]:
        if "://" in path:
            return [path]
        full = os.path.join(self._folder, path)  # noqa: PTH118 (globs are not paths)
        if Path(full).is_dir():
            full = os.path.join(full, "**", "*.*")  # noqa: PTH118
        found = sorted(f for f in glob.glob(full, recursive=True) if Path(f).is_file())  # noqa: PTH207
        if not found:
            raise LogError(
                f"no file of {_plain(name)} matches {full}",
                f"check logs.{_plain(name)}.path; relative paths start at the experiment file",
            )
        return found


_H60 = "cast('0x' || substr(md5(salt || ':' || unit), 1, 15) as bigint)"


class _ArrowStream:
    """Shows DuckDB nothing but the Arrow stream of a frame, so that no other package is needed."""

    def __init__(self, frame: object, name: str) -> None:
        if not hasattr(frame, "__arrow_c_stream__"):
            raise LogError(
                f"{name}: {type(frame).__name__} is not a frame",
                "give a pandas, Polars or Arrow table, or a DuckDB relation",
            )
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)  # type: ignore[attr-defined]  # checked above


def _config(options: EngineOptions | None) -> dict[str, str | bool | int | float | list[str]]:
    given = options or EngineOptions()
    named: dict[str, str | int | None] = {
        "memory_limit": given.memory_limit,
        "threads": given.threads,
        "temp_directory": given.temp_directory,
    }
    return {key: value for key, value in named.items() if value is not None}


def _kind(files: list[str], name: str) -> str:
    kinds = {
        _READERS.get("".join(Path(f).suffixes[-2:]), _READERS.get(Path(f).suffix)) for f in files
    }
    if len(kinds) != 1 or None in kinds:
        suffixes = sorted({Path(f).suffix or f for f in files})
        raise LogError(
            f"{_plain(name)} are files of unknown or mixed kinds: {', '.join(suffixes)}",
            f"set logs.{_plain(name)}.format to parquet, csv or json, or narrow the path",
        )
    return str(kinds.pop())


def _hive(files: list[str]) -> str:
    return "true" if any("=" in part for f in files for part in Path(f).parts[:-1]) else "false"


def _plain(relation: str) -> str:
    return relation.removeprefix("raw_")


def _message(error: duckdb.Error) -> str:
    return str(error).split("\n\nLINE")[0].strip()


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
