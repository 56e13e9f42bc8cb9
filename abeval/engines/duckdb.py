"""DuckDB, embedded: the default engine."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np

from abeval.engines import sources, zones
from abeval.engines.protocol import Cell
from abeval.errors import LogError, QueryError
from abeval.sql import literal, quoted

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from abeval.experiment.model import EngineOptions, LogSource

_Answer = TypeVar("_Answer")
_RUNS = count(1)
"""Numbers what is attached, so that two runs on one connection do not meet."""


class DuckDBEngine:
    """One in-memory DuckDB for one run; what does not fit spills to the temporary folder.

    Args:
        options: Memory, threads and temporary folder; a caller's connection keeps its own.
        folder: Where relative paths of logs start.
        connection: The caller's own connection, whose committed tables logs may name. Everything
            the run makes lies in an attached database of its own: names do not clash, settings
            stay, and `close` leaves the connection as it was.
    """

    def __init__(
        self,
        options: "EngineOptions | None" = None,
        folder: Path = Path(),
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._folder = folder
        self._caller = connection
        self._attached: list[str] = []
        if connection is None:
            self._connection = _connect(options)
        else:
            self._connection = _beside(connection)
            ((self._home,),) = self._connection.execute("select current_database()").fetchall()
            self._run(f"use {quoted(self._attach(':memory:', ''))}")
        self._run("set timezone = 'UTC'")
        # DuckDB only knows how far it is where it is to show that; it shows nothing itself.
        self._run("set enable_progress_bar = true")
        self._run("set enable_progress_bar_print = false")
        self._run(f"create macro abeval_h60(salt, unit) as {_H60}")

    def add_log(self, name: str, source: "LogSource") -> None:
        """Make files or a table readable as the relation `name`."""
        if source.table is not None:
            self._add_table(name, source.table, source.database)
        else:
            self.add_files(name, source.paths, source.format)

    def add_files(self, name: str, paths: Sequence[str], said: str = "auto") -> None:
        """Make files readable as the relation `name`, of the kind that is said or named."""
        log = _plain(name)
        files = sources.files_of(log, paths, self._folder)
        kind = sources.kind_of(log, files, said)
        hint = "is the file whole, and of the kind its name says? `format` can name the kind"
        with _reading(f"{log} cannot be read from {', '.join(paths)}", hint):
            self._read(name, kind, files)
        if kind == "csv":
            sources.check_split(log, list(self.columns(name)), files)

    def add_frame(self, name: str, frame: object) -> None:
        """Copy a frame (pandas, Polars, Arrow, a relation) into the relation `name`."""
        # A copy: DuckDB cannot read columns that a reversed or sliced frame strides through.
        packed = _packed(frame)
        source = _ArrowStream(frame, _plain(name)) if packed is None else packed
        hint = "each column must have one type, and each column a name of its own"
        with _reading(f"{_plain(name)}: the frame cannot be read", hint):
            self._connection.register("abeval_frame", source)
            self._run(f"create or replace table {quoted(name)} as select * from abeval_frame")
            self._connection.unregister("abeval_frame")

    def columns(self, relation: str) -> Mapping[str, str]:
        """Column names and types of a relation, in its order."""
        described = self.rows(f"describe {quoted(relation)}")
        return {str(row[0]): str(row[1]) for row in described}

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        with _asking():
            self._run(f"create or replace view {quoted(name)} as {sql}")

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        with _asking():
            self._run(f"create or replace table {quoted(name)} as {sql}")

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        with _asking():
            return self._wait(lambda: self._connection.execute(sql).fetchall())

    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""
        with _asking():
            return self._wait(lambda: self._connection.execute(sql).df())

    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""
        with _asking():
            found = self._wait(lambda: self._connection.execute(sql).fetchnumpy())
        # Only an enum is fetched as something else.
        return {name: np.ma.asanyarray(column) for name, column in found.items()}

    def chunks(self, sql: str) -> "Iterator[Mapping[str, NDArray[np.generic]]]":
        """Run a query and fetch some rows at a time, none of them null, in whatever order."""
        with _asking():
            asked = self._wait(lambda: self._connection.execute(sql))
            while len(found := self._wait(lambda: asked.fetch_df_chunk(_VECTORS))):
                yield {str(name): found[name].to_numpy() for name in found.columns}

    def progress(self) -> float | None:
        """How much of the running statement is done, None where DuckDB cannot tell."""
        with suppress(duckdb.Error):
            percent = self._connection.query_progress()
            return percent / 100 if percent >= 0 else None
        return None

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: milliseconds since 1970 of a UTC timestamp expression."""
        return f"epoch_ms({timestamp})"

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """SQL: the local timestamp of an epoch-milliseconds expression."""
        utc = f"make_timestamp({milliseconds} * 1000)"
        if timezone == "UTC":
            return utc
        since, until = (int(end.timestamp()) * 1000 for end in (zones.SINCE, zones.UNTIL))
        added = zones.added(milliseconds, zones.offsets(timezone))
        return (
            f"case when {milliseconds} >= {since} and {milliseconds} < {until} "
            f"then make_timestamp(({milliseconds} + {added}) * 1000) "
            f"else timezone({literal(timezone)}, timezone('UTC', {utc})) end"
        )

    def hash60(self, salt: str, unit: str) -> str:
        """SQL: the `md5_60` of a salt and a unit expression."""
        return f"abeval_h60({literal(salt)}, {unit})"

    def close(self) -> None:
        """Give back memory and files, and what was attached to the caller's connection."""
        with suppress(duckdb.Error):
            if self._caller is not None:
                self._run(f"use {quoted(self._home)}")
                for alias in reversed(self._attached):
                    self._run(f"detach {quoted(alias)}")
            self._connection.close()

    def _run(self, sql: str) -> None:
        # DuckDB may leave the work, and its errors, to whoever fetches the result.
        self._wait(lambda: self._connection.execute(sql).fetchall())

    def _wait(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask in another thread: in this one DuckDB may not hear Ctrl-C before it is done."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask)
            try:
                return answer.result()
            except KeyboardInterrupt:
                self._connection.interrupt()
                raise

    def _read(self, name: str, kind: str, files: Sequence[str]) -> None:
        """Parquet is read where it lies; text is parsed once."""
        listed = "[" + ", ".join(literal(f) for f in files) + "], union_by_name = true"
        if kind == "parquet":
            hive = "true" if sources.has_partitions(files) else "false"
            made = f"view {quoted(name)} as from read_parquet({listed}, hive_partitioning = {hive})"
        else:
            made = f"table {quoted(name)} as from read_{kind}({listed})"
        self._run(f"create or replace {made}")
        self._run(f"from {quoted(name)} limit 1")

    def _add_table(self, name: str, table: str, database: str | None) -> None:
        if database is not None:
            known, full = self._in_database(database, table)
        elif self._caller is not None:
            with _reading("the connection cannot be asked for its tables", "is it in use?"):
                known, full = self._of_caller(self._caller, table)
        else:
            raise LogError(
                f"logs.{_plain(name)}.table names {table!r}, but nothing says where it is",
                f"give logs.{_plain(name)}.database, or pass connection = ... from Python",
            )
        if full is not None:
            self.view(name, f"select * from {full}")
        elif self._caller is not None and self._is_temporary(self._caller, table):
            # Another connection cannot see a temporary table or a registered frame.
            self.add_frame(name, self._caller.table(quoted(table)))
        else:
            hint = f"tables and views: {', '.join(known) or 'none'}"
            from abeval.experiment.problems import suggestion

            what = f"logs.{_plain(name)}: there is no table {table!r}{suggestion(table, known)}"
            raise LogError(what, hint if len(known) > 12 else None)

    def _in_database(self, database: str, table: str) -> tuple[list[str], str | None]:
        """The tables of a DuckDB file, and the full name of the one that is wanted."""
        file = self._folder / database
        if not file.is_file():
            raise LogError(f"no DuckDB database at {file}", "check logs.*.database")
        with _reading(f"{file} cannot be opened", "is it a DuckDB database of this version?"):
            alias = self._alias_of(file)
        return self._find_table(table, alias, "main")

    def _of_caller(
        self, caller: duckdb.DuckDBPyConnection, table: str
    ) -> tuple[list[str], str | None]:
        if self._is_temporary(caller, table):
            return [], None
        ((database, schema),) = caller.execute(
            "select current_database(), current_schema()"
        ).fetchall()
        return self._find_table(table, database, schema)

    def _find_table(self, table: str, database: str, schema: str) -> tuple[list[str], str | None]:
        found = self.rows(
            "select database_name, schema_name, table_name from duckdb_tables() where not internal "
            "union select database_name, schema_name, view_name from duckdb_views() "
            "where not internal order by all"
        )
        known = {tuple(str(part).lower() for part in row) for row in found}
        parts = table.split(".")
        for wanted in ([database, schema, *parts], [database, *parts], parts):
            if tuple(part.lower() for part in wanted) in known:
                return [], ".".join(quoted(part) for part in wanted)
        return [str(name) for place, _, name in found if place == database], None

    @staticmethod
    def _is_temporary(caller: duckdb.DuckDBPyConnection, table: str) -> bool:
        sql = (
            "select 1 from duckdb_tables() where temporary and table_name = $1 "
            "union all select 1 from duckdb_views() where temporary and view_name = $1"
        )
        return bool(caller.execute(sql, [table]).fetchall())

    def _alias_of(self, file: Path) -> str:
        """The name of a database file, which the caller may have opened already."""
        for name, path in self.rows("select database_name, path from duckdb_databases()"):
            if path is not None and Path(str(path)).resolve() == file.resolve():
                return str(name)
        return self._attach(str(file), "(read_only)")

    def _attach(self, path: str, options: str) -> str:
        alias = f"abeval_{next(_RUNS)}"
        self._run(f"attach {literal(path)} as {quoted(alias)} {options}")
        self._attached.append(alias)
        return alias


_VECTORS = 200
"""Of 2,048 rows each, that are fetched at a time."""

_H60 = "cast('0x' || substr(md5(salt || ':' || unit), 1, 15) as bigint)"
_MEMORY = "raise [engine] memory_limit, lower threads, or name a temp_directory with space"


def _packed(frame: object) -> object | None:
    """A pandas frame copied, None if it is none; whoever has one has imported pandas."""
    pandas = sys.modules.get("pandas")
    return frame.copy() if pandas is not None and isinstance(frame, pandas.DataFrame) else None


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
        return self._frame.__arrow_c_stream__(requested_schema)


def _connect(options: "EngineOptions | None") -> duckdb.DuckDBPyConnection:
    named: dict[str, str | int | None] = {}
    if options is not None:
        named = {
            "memory_limit": options.memory_limit,
            "threads": options.threads,
            "temp_directory": options.temp_directory,
        }
    config: dict[str, str | bool | int | float | list[str]] = {
        key: value for key, value in named.items() if value is not None
    }
    try:
        return duckdb.connect(config=config)
    except duckdb.Error as error:
        what = f"DuckDB does not take these [engine] options: {_message(error)}"
        raise QueryError(what, "memory_limit is a size such as 4GB, threads a number") from error


def _beside(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection to the caller's database with names and settings of its own."""
    try:
        return connection.cursor()
    except duckdb.Error as error:
        what = f"the connection cannot be used: {_message(error)}"
        raise QueryError(what, "give an open one") from error


@contextmanager
def _asking() -> Iterator[None]:
    """Whatever goes wrong here is a fault of a query, or of the machine."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"DuckDB ran out of memory: {_message(error)}", _MEMORY) from error
    except duckdb.Error as error:
        raise QueryError(f"DuckDB could not run a query: {_message(error)}") from error


@contextmanager
def _reading(what: str, hint: str) -> Iterator[None]:
    """Whatever goes wrong here is a fault of a log."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"{what}: {_message(error)}", _MEMORY) from error
    except (duckdb.Error, RuntimeError, ValueError, TypeError) as error:
        raise LogError(f"{what}: {_message(error)}", hint) from error


def _plain(relation: str) -> str:
    return relation.removeprefix("raw_")


def _message(error: Exception) -> str:
    """What DuckDB says, without its listings and advice on its own options."""
    lines = str(error).split("\n\n")[0].splitlines()
    said = [line.strip() for line in lines if not line.startswith(("Original Line", "LINE "))]
    return " ".join(said[:2])
