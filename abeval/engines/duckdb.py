"""Run queries on DuckDB, embedded: the default engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from abeval.engines import builders
from abeval.engines.builders import write_duckdb_macros
from abeval.engines.copies import Copies
from abeval.engines.duckdb_connection import (
    connect,
    open_scratch,
    open_sibling_cursor,
    query_errors,
    write_confinement,
)
from abeval.engines.duckdb_logs import Logs, Tables
from abeval.engines.sources import are_small, find_readable_files
from abeval.engines.sql import Cell, Engine, Result, literal, quote
from abeval.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from abeval.experiment.sections import EngineOptions
    from abeval.experiment.sources import LogSource


class DuckDBEngine(Logs, Engine):
    """Run one DuckDB database for one run.

    It is in memory, or in a temporary file if memory is limited. Beside the caller's `connection`,
    whose committed tables logs may name, `options` are not used, and the run creates everything in
    an attached database of its own: names do not clash, settings stay, and `close` leaves the
    connection as it was.
    """

    in_process = True

    def __init__(
        self,
        options: "EngineOptions | None" = None,
        folder: Path = Path(),
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._worker = ThreadPoolExecutor(1, "abeval-duckdb")
        self._is_own = connection is None
        self._reads_remote = not self._is_own or (options is not None and options.remote_files)
        # Blocks of a file can be dropped from memory at once; those of a database in memory would
        # be written out first.
        self._scratch = open_scratch(options) if connection is None else None
        self._open = (
            partial(connect, options, self._scratch)
            if connection is None
            else partial(open_sibling_cursor, connection)
        )
        self._kinds: dict[str, str] = {}
        self._settings = list[str]()
        self._copies = Copies(None if options is None else options.temp_directory)
        super().__init__(folder)
        self._tables = Tables(self._run, connection)
        self._has_few_threads = connection is None and (options is None or options.threads is None)
        try:
            with query_errors():
                # Beside a caller's connection the database of the run is open already.
                self._set("set timezone = 'UTC'", *write_duckdb_macros())
        except QueryError:
            self.close()
            raise

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        # Opened by the first statement: what arrays of a frame answer needs no database.
        connection = self._open()
        try:
            connection.execute("; ".join(self._settings))
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _is_open(self) -> bool:
        return "_connection" in self.__dict__

    def _set(self, *statements: str) -> None:
        """Change settings, or have them before the first statement."""
        if self._is_open:
            self._run("; ".join(statements))
        else:
            self._settings += statements

    def confine(
        self,
        logs: "Iterable[LogSource]",
        folders: Sequence[str] = (),
        *,
        with_copies: bool = False,
    ) -> None:
        """Open from now on only the files of these logs and these folders.

        The first call counts: no extension can be loaded after it, and no setting changed. The
        connection of a caller keeps its own settings; with `[engine] remote_files` and such a file,
        DuckDB may open any. `with_copies` opens also copies of files whose encoding is not known.
        """
        if self._is_confined:
            return
        sources = [*logs]
        there = [
            f for log in sources if (f := find_readable_files("", log, self._folder)) is not None
        ]
        # Frames that are still to come may have many rows.
        has_frames = bool(self._stored or self._frames)
        if (len(there) < max(len(sources), 1) and not has_frames) or not are_small(there):
            self._use_all_threads()
        self._is_confined = True
        if not self._is_own or (self._reads_remote and not all(f.are_local for f in there)):
            return
        files = [file for log_files in there for file in (*log_files.read, *log_files.empty)]
        if with_copies or any(log_files.are_copied for log_files in there):
            folders = [*folders, str(self._copies.folder)]
        with query_errors():
            self._set(*write_confinement(files, folders))

    def _use_all_threads(self) -> None:
        """Run statements from here on with a thread for each processor, if that can be changed."""
        if self._has_few_threads and not self._is_confined:
            self._has_few_threads = False
            self._set("reset threads")

    @query_errors()
    def add_arrays(self, name: str, columns: "Mapping[str, NDArray[np.generic]]") -> None:
        """Make arrays of one length the columns of the relation `name`."""
        self._make_waiting()
        self._connection.register("abeval_arrays", dict(columns))
        ((count,),) = self._run(
            f"create or replace table {quote(name)} as select * from abeval_arrays"
        )
        self._connection.unregister("abeval_arrays")
        self._forget(name)
        self._rows[name] = int(str(count))

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        if self._is_open:
            self._create("view", name, sql)
        else:
            self._waiting.append(partial(self._create, "view", name, sql))

    def write_steps(self, steps: Mapping[str, str], sql: str) -> str:
        """Write a query with the steps that only it reads, in their order."""
        # DuckDB plans each view when it is made, with all that it reads.
        named = ", ".join(f"{name} as not materialized ({step})" for name, step in steps.items())
        return f"with {named} select * from ({sql}) as answer" if steps else sql

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        self._create("table", name, sql)

    @query_errors()
    def drop(self, *names: str) -> None:
        """Drop relations, and free what their rows take."""
        for name in names:
            self._forget(name)
        drops = (f"drop {self._kinds.pop(n, 'table')} if exists {quote(n)}" for n in names)
        self._run("; ".join(drops))

    @query_errors()
    def _create(self, kind: str, name: str, sql: str) -> None:
        """Create a relation, in place of one of its name."""
        before = self._kinds.get(name, kind)
        # `create or replace view` fails where a table has the name, and the other way round.
        drop = "" if before == kind else f"drop {before} if exists {quote(name)}; "
        counts = self._run(f"{drop}create or replace {kind} {quote(name)} as {sql}")
        self._kinds[name] = kind
        self._forget(name)
        if kind == "table":
            self._rows[name] = int(str(counts[0][0]))

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        return self._answer(sql, duckdb.DuckDBPyConnection.fetchall)

    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""
        return self._answer(sql, duckdb.DuckDBPyConnection.df)

    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""
        columns = self._answer(sql, duckdb.DuckDBPyConnection.fetchnumpy)
        # Enums are fetched as pandas categoricals, everything else as arrays already.
        return {name: np.asanyarray(column) for name, column in columns.items()}

    @query_errors()
    def compute(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Fetch the columns of a query that reads no relation, while those that wait still do."""
        columns = self._wait(lambda: self._connection.execute(sql).fetchnumpy())
        return {name: np.asanyarray(column) for name, column in columns.items()}

    @query_errors()
    def _answer(self, sql: str, fetch: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        self._make_waiting()
        return self._wait(lambda: fetch(self._connection.execute(sql)))

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """Write the local timestamp of an epoch-milliseconds expression."""
        utc = f"make_timestamp({milliseconds} * 1000)"
        if timezone == "UTC":
            return utc
        since, until = (int(end.timestamp()) * 1000 for end in (builders.SINCE, builders.UNTIL))
        added = builders.write_offset(milliseconds, builders.list_offsets(timezone))
        return (
            f"case when {milliseconds} >= {since} and {milliseconds} < {until} "
            f"then make_timestamp(({milliseconds} + {added}) * 1000) "
            f"else timezone({literal(timezone)}, timezone('UTC', {utc})) end"
        )

    def hash64(self, values: Sequence[str]) -> str:
        """Write a whole number of 64 bits that stands for values, nulls among them."""
        return f"cast(hash({', '.join(values)}) >> 1 as bigint)"

    def close(self) -> None:
        """Release memory and files, and detach from the caller's connection."""
        self._waiting.clear()
        # A second time there is no thread that could do it.
        with suppress(duckdb.Error, RuntimeError):
            self._tables.close()
        self._worker.shutdown()
        if self._is_open:
            with suppress(duckdb.Error):
                self._connection.close()
        self._copies.close()
        if self._scratch is not None:
            self._scratch.close()

    def _run(self, sql: str) -> Sequence[tuple[object, ...]]:
        self._make_waiting()
        # DuckDB may do the work, and raise its errors, only when the result is fetched.
        return self._wait(lambda: self._connection.execute(sql).fetchall())

    def _wait(self, work: Callable[[], Result]) -> Result:
        """Run work in another thread, so that Ctrl-C interrupts it.

        In this thread DuckDB may ignore Ctrl-C until the statement ends. Also SIGTERM and SIGHUP,
        which the command line makes an exit, interrupt it.
        """
        idle, stopped = Event(), Event()
        idle.set()

        def unless_stopped() -> Result:
            idle.clear()
            try:
                if stopped.is_set():
                    raise CancelledError
                return work()
            finally:
                idle.set()

        try:
            return self._worker.submit(unless_stopped).result()
        except (KeyboardInterrupt, SystemExit):
            stopped.set()
            # DuckDB forgets an interrupt that comes before the query has begun.
            while not idle.wait(0.05):
                if self._is_open:
                    self._connection.interrupt()
            raise
