"""DuckDB, embedded: the default engine."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np

from abeval.engines import sources, zones
from abeval.engines.builders import duckdb_epoch_ms
from abeval.engines.duckdb_errors import asking, message, plain, reading
from abeval.engines.protocol import Cell
from abeval.engines.sql import literal, quoted
from abeval.engines.tables import Tables
from abeval.errors import LogError, QueryError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from abeval.experiment.model import EngineOptions, LogSource

_Answer = TypeVar("_Answer")


class DuckDBEngine:
    """One DuckDB for one run, in memory; with a limit of memory, in a file of the temporary folder.

    What does not fit into a limit is read again and again. Blocks of a file are compressed, and are
    dropped from memory as they are, where spilled ones would be written anew.

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
        self._scratch = _scratch(options) if connection is None else None
        self._connection = (
            _connect(options, self._scratch) if connection is None else _beside(connection)
        )
        self._tables = Tables(self._connection, connection, folder)
        try:
            self._run("set timezone = 'UTC'")
            self._run(f"create macro abeval_h60(salt, unit) as {_H60}")
        except duckdb.Error:
            self.close()
            raise

    def add_log(self, name: str, source: "LogSource") -> None:
        """Make files or a table readable as the relation `name`."""
        if source.table is None:
            self.add_files(name, source.paths, source.format)
            return
        found = self._tables.find(plain(name), source.table, source.database)
        if isinstance(found, str):
            self.view(name, f"select * from {found}")
        else:
            self.add_frame(name, found)

    def add_files(self, name: str, paths: Sequence[str], said: str = "auto") -> None:
        """Make files readable as the relation `name`, of the kind that is said or named."""
        log = plain(name)
        files = sources.files_of(log, paths, self._folder)
        kind = sources.kind_of(log, files, said)
        hint = "is the file whole, and of the kind its name says? `format` can name the kind"
        with reading(f"{log} cannot be read from {', '.join(paths)}", hint):
            self._read(name, kind, files)
        if kind == "csv":
            sources.check_split(log, list(self.columns(name)), files)

    def add_frame(self, name: str, frame: object) -> None:
        """Copy a frame (pandas, Polars, Arrow, a relation) into the relation `name`."""
        # A copy: DuckDB cannot read columns that a reversed or sliced frame strides through.
        packed = _packed(frame)
        source = _ArrowStream(frame, plain(name)) if packed is None else packed
        hint = "each column must have one type, and each column a name of its own"
        with reading(f"{plain(name)}: the frame cannot be read", hint):
            self._connection.register("abeval_frame", source)
            self._run(f"create or replace table {quoted(name)} as select * from abeval_frame")
            self._connection.unregister("abeval_frame")

    def columns(self, relation: str) -> Mapping[str, str]:
        """Column names and types of a relation, in its order."""
        described = self.rows(f"describe {quoted(relation)}")
        return {str(row[0]): str(row[1]) for row in described}

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        with asking():
            self._run(f"create or replace view {quoted(name)} as {sql}")

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        with asking():
            self._run(f"create or replace table {quoted(name)} as {sql}")

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        with asking():
            return self._wait(lambda: self._connection.execute(sql).fetchall())

    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""
        with asking():
            return self._wait(lambda: self._connection.execute(sql).df())

    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""
        with asking():
            found = self._wait(lambda: self._connection.execute(sql).fetchnumpy())
        # Only an enum is fetched as something else.
        return {name: np.ma.asanyarray(column) for name, column in found.items()}

    def chunks(self, sql: str) -> "Iterator[Mapping[str, NDArray[np.generic]]]":
        """Run a query and fetch some rows at a time, none of them null, in whatever order."""
        with asking():
            asked = self._wait(lambda: self._connection.execute(sql))
            while len(found := self._wait(lambda: asked.fetch_df_chunk(_VECTORS))):
                yield {str(name): found[name].to_numpy() for name in found.columns}

    def watched(self) -> Callable[[], float | None]:
        """What to ask how much of the running statement is done."""
        # DuckDB only knows how far it is where it is to show that, which not every place can.
        with suppress(duckdb.Error):
            self._run("set enable_progress_bar_print = false")
            self._run("set enable_progress_bar = true")
        return self._progress

    def _progress(self) -> float | None:
        with suppress(duckdb.Error):
            percent = self._connection.query_progress()
            return percent / 100 if percent >= 0 else None
        return None

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: whole milliseconds since 1970 of a UTC timestamp expression, rounded down."""
        return duckdb_epoch_ms(timestamp)

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
            self._tables.close()
            self._connection.close()
        if self._scratch is not None:
            self._scratch.cleanup()

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


_VECTORS = 200
"""Of 2,048 rows each, that are fetched at a time."""

_H60 = "cast('0x' || substr(md5(salt || ':' || unit), 1, 15) as bigint)"


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


def _scratch(options: "EngineOptions | None") -> "TemporaryDirectory[str] | None":
    """A folder for a database of the run, where its memory is limited."""
    if options is None or options.memory_limit is None:
        return None
    folder = options.temp_directory
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(prefix="abeval-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        what = f"the temporary folder {folder} cannot be used: {error.strerror}"
        raise QueryError(what, "name another: [engine] temp_directory, --temp-directory") from error


def _connect(
    options: "EngineOptions | None", scratch: "TemporaryDirectory[str] | None"
) -> duckdb.DuckDBPyConnection:
    database = ":memory:" if scratch is None else str(Path(scratch.name) / "abeval_run.duckdb")
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
        return duckdb.connect(database, config=config)
    except duckdb.Error as error:
        if scratch is not None:
            scratch.cleanup()
        what = f"DuckDB does not take these [engine] options: {message(error)}"
        raise QueryError(what, "memory_limit is a size such as 4GB, threads a number") from error


def _beside(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection to the caller's database with names and settings of its own."""
    try:
        return connection.cursor()
    except duckdb.Error as error:
        what = f"the connection cannot be used: {message(error)}"
        raise QueryError(what, "give an open one") from error
