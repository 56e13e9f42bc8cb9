"""Open connections to DuckDB, and run their statements.

The module sets what connections may use and read, and how statements fail.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from weakref import WeakSet

import duckdb

from abeval.engines.sources import spell_paths
from abeval.engines.sql import Result, literal, quote
from abeval.errors import LogError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.files import resolve_path
from abeval.scratch import Scratch


def write_confinement(files: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Write statements that confine a connection to some files and folders."""
    # A database may have a write-ahead log that is still to be read.
    paths = spell_paths([*files, *(f"{file}.wal" for file in files)])
    inside = spell_paths([str(Path(folder).absolute()) for folder in folders])
    return [
        f"set allowed_paths = [{', '.join(map(literal, paths))}]",
        f"set allowed_directories = [{', '.join(map(literal, inside))}]",
        # The order matters: after these two no setting can be changed and no extension loaded.
        "set enable_external_access = false",
        "set lock_configuration = true",
    ]


def _open_scratch(options: EngineOptions) -> Scratch | None:
    """Open a folder for what does not fit into memory, if options ask for it."""
    if options.memory_limit is None and options.temp_directory is None:
        return None
    folder = options.temp_directory
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return Scratch(folder, "abeval-run-")
    except OSError as error:
        what = f"the temporary folder {folder} cannot be used: {error.strerror}"
        raise QueryError(
            what, "name another: [engine] temp_directory or --temp-directory"
        ) from error


NO_EXTENSIONS: Mapping[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
}
"""Settings that keep a path such as `https://…` from loading an extension."""


def open_database(
    database: str = ":memory:",
    config: Mapping[str, str] = NO_EXTENSIONS,
    files: Sequence[str] = (),
    folders: Sequence[str] = (),
) -> duckdb.DuckDBPyConnection:
    """Open a database on a connection that is confined from the start.

    Every connection of abeval is opened here, or by `connect` for an engine, which confines itself
    before it reads a log.
    """
    opened = duckdb.connect(database, config={**config})
    opened.execute("; ".join(write_confinement(files, folders)))
    OPEN.add(opened)
    return opened


def connect(options: EngineOptions, scratch: Scratch | None) -> duckdb.DuckDBPyConnection:
    """Open the connection of an engine, in memory or to a temporary file."""
    database = ":memory:"
    # Starting a thread for each processor takes longer than a small log.
    config: dict[str, Any] = {"threads": options.threads or 1}
    if not options.remote_files:
        config |= NO_EXTENSIONS
    if scratch is not None:
        config["temp_directory"] = str(scratch.path / "spill")
        # What a run reads once or twice is not worth the time that compressing it takes.
        config["force_compression"] = "uncompressed"
        if options.memory is not None:
            database = str(scratch.path / "run.duckdb")
            # The other half is for arrays of units and for Python, of which DuckDB knows nothing.
            config["memory_limit"] = f"{options.memory // 2}B"
            # What DuckDB has freed would stay with its allocator: the arrays that follow need it.
            config["allocator_bulk_deallocation_flush_threshold"] = "1MB"
    try:
        opened = duckdb.connect(database, config=config)
    except duckdb.Error as error:
        if scratch is not None:
            scratch.close()
        what = f"DuckDB does not accept these [engine] options: {extract_message(error)}"
        raise QueryError(what, "memory_limit is a size such as 4GB, threads a number") from error
    OPEN.add(opened)
    return opened


def _open_sibling_cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Open a second connection to the caller's database."""
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        what = f"a {type(connection).__name__} is no connection of DuckDB"
        raise QueryError(what, "pass an open one, of DuckDB in this process")
    try:
        # A cursor shares the database, and has names and settings of its own.
        return connection.cursor()
    except duckdb.Error as error:
        what = f"the connection cannot be used: {extract_message(error)}"
        raise QueryError(what, "pass an open connection") from error


OPEN = WeakSet[Any]()
"""Open connections, whose statements a time limit can end."""


_ENDS: list[float] = []


def count_seconds_left() -> float | None:
    """Return how long the time limits that hold still last; None without any."""
    return min(_ENDS) - monotonic() if _ENDS else None


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """End the database statements of a block that lasts too long.

    What Python does goes on.

    Raises:
        QueryError: The time is over, in place of the error of what was interrupted.
    """
    has_ended, is_over = Event(), Event()
    end = monotonic() + seconds

    def watch() -> None:
        if has_ended.wait(seconds):
            return
        is_over.set()
        # A query forgets an interrupt that comes before it has begun, and another may follow it.
        while not has_ended.wait(0.05):
            for connection in tuple(OPEN):
                # It may be closed by now.
                with suppress(duckdb.Error, sqlite3.Error):
                    connection.interrupt()

    watcher = Thread(target=watch, name="abeval-time-limit", daemon=True)
    watcher.start()
    _ENDS.append(end)
    try:
        yield
    except Exception as error:
        if not is_over.is_set():
            raise
        what = f"it was not done within the time limit of {seconds:g} s"
        hint = "read fewer rows, make the view or query quicker, or raise --time-limit"
        raise QueryError(what, hint) from error
    finally:
        _ENDS.remove(end)
        has_ended.set()
        watcher.join()


_DAMAGE = re.compile("[Cc]orrupt|decompress|read enough bytes")
_MEMORY = "raise [engine] memory_limit, lower threads, or name a temp_directory with free space"


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise what DuckDB raises as the error of a query."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"DuckDB ran out of memory: {extract_message(error)}", _MEMORY) from error
    except duckdb.Error as error:
        hint = "a file of a log is damaged: restore it, or write it again"
        is_damage = _DAMAGE.search(
            what := f"DuckDB could not run a query: {extract_message(error)}"
        )
        raise QueryError(what, hint if is_damage else None) from error


@contextmanager
def log_errors(what: str, hint: str) -> Iterator[None]:
    """Raise what DuckDB raises as the error of a log."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"{what}: out of memory, {extract_message(error)}", _MEMORY) from error
    except (duckdb.Error, RuntimeError, ValueError, TypeError) as error:
        raise LogError(f"{what}: {extract_message(error)}", hint) from error


# The class of an error stands before it, advice on DuckDB's settings behind it.
_CLASS = re.compile(r"(?:[A-Z][\w-]*(?: \w+)*? ?(?:Error|Exception)(?: on Line)?: )+")
_OF_FRAME = re.compile(r".*(?:registered as '\w+' failed|failed: C Data interface error): ", re.S)
_ADVICE = re.compile(
    r"[.!]? *(?:You might need|Candidate|Possible|Use TRY|Please|HINT|Try |Consider).*"
)
_OF_CAST = re.compile(
    r"Type \w+ with value (\S+) can't be cast because the value is out of range.*"
)
_OF_CSV = re.compile('Error when sniffing file ".*')


def extract_message(error: Exception) -> str:
    """Return what DuckDB says, without class, query and advice on settings."""
    # Of a frame, what its library says.
    lines = _OF_FRAME.sub("", str(error)).split("\n\n")[0].splitlines()
    # The query is abeval's own, and says nothing to a user.
    kept = [line.strip() for line in lines if not line.startswith(("Original Line", "LINE "))]
    plain = _OF_CAST.sub(r"\1 is out of range", _CLASS.sub("", " ".join(kept[:2])))
    return _ADVICE.sub("", _OF_CSV.sub("its delimiter and quotes cannot be told", plain))


class Database:
    """Run statements on a connection that the first of them opens.

    It is to a database of its own, in memory, or in a temporary file if memory is limited; or the
    second one to that of the caller.
    """

    def __init__(
        self, options: EngineOptions, caller: duckdb.DuckDBPyConnection | None = None
    ) -> None:
        self._options, self._caller = options, caller
        self._worker = ThreadPoolExecutor(1, "abeval-duckdb")
        # Blocks of a file can be dropped from memory at once; those of a database in memory would
        # be written out first.
        self._scratch = _open_scratch(options) if caller is None else None
        self._settings, self._waiting = list[str](), list[Callable[[], None]]()
        self._is_confined = False
        self._has_few_threads = caller is None and options.threads is None

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        # Opened by the first statement: what arrays of a frame answer needs no database.
        connection = (
            connect(self._options, self._scratch)
            if self._caller is None
            else _open_sibling_cursor(self._caller)
        )
        try:
            connection.execute("; ".join(self._settings))
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _is_open(self) -> bool:
        """Tell whether a statement has run."""
        return "_connection" in self.__dict__

    def _set(self, *statements: str) -> None:
        """Change settings, or have them before the first statement."""
        if self._is_open:
            self._run("; ".join(statements))
        else:
            self._settings += statements

    def _use_all_threads(self) -> None:
        """Use a thread for each processor from here on, if the setting can be changed."""
        if self._has_few_threads and not self._is_confined:
            self._has_few_threads = False
            self._set("reset threads")

    def _make_waiting(self) -> None:
        """Make the relations that were named before the first statement, in their order."""
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                waiting.pop(0)()
        finally:
            self._waiting = [*waiting, *self._waiting]

    def _run(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement and fetch its rows."""
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

    def close(self) -> None:
        """Release memory and files."""
        self._worker.shutdown()
        if self._is_open:
            with suppress(duckdb.Error):
                self._connection.close()
        if self._scratch is not None:
            self._scratch.close()


_RUNS = count(1)
"""Counter of attached databases, so that runs on one connection do not clash."""


_TEMPORARY = (
    "select 1 from duckdb_tables() where temporary and table_name = $1 "
    "union all select 1 from duckdb_views() where temporary and view_name = $1"
)
"""Query for a temporary table or frame, which other connections cannot see."""


class Tables:
    """Hold the databases whose tables a run reads.

    If there is a caller's connection, the run's own one switches to a new database.
    """

    def __init__(
        self,
        run: Callable[[str], Sequence[tuple[Any, ...]]],
        caller: duckdb.DuckDBPyConnection | None,
    ) -> None:
        self._run, self._caller = run, caller
        self._attached: list[str] = []
        if caller is not None:
            ((self._home,),) = run("select current_database()")
            run(f"use {quote(self._attach(':memory:', ''))}")

    def list_file_tables(self, file: str) -> dict[str, str]:
        """List the tables and views of a database file, name → full name."""
        with log_errors(
            f"{file} cannot be opened", "is it a DuckDB database of this version, and whole?"
        ):
            # The caller may have attached it.
            sql = "select database_name, path from duckdb_databases() where path is not null"
            # DuckDB refuses to attach one file twice.
            opened = {resolve_path(path): name for name, path in self._run(sql)}
            home = opened.get(resolve_path(file)) or self._attach(file, "(read_only)")
        return {
            name if schema == "main" else f"{schema}.{name}": ".".join(
                map(quote, (database, schema, name))
            )
            for database, schema, name in self._list_tables()
            if database == home
        }

    def find(self, log: str, table: str) -> str | duckdb.DuckDBPyRelation:
        """Find the full name of a table, or its rows if only the caller sees them."""
        if self._caller is None:
            raise LogError(
                f"logs.{log}.table names {table!r}, but there is no file or connection for it",
                f"set logs.{log}.path to the database, or pass connection = ... from Python",
            )
        with log_errors("the tables of the connection cannot be listed", "is it in use?"):
            if self._caller.execute(_TEMPORARY, [table]).fetchall():
                return self._caller.table(quote(table))
            sql = "select current_database(), current_schema()"
            ((home, schema),) = self._caller.execute(sql).fetchall()
        rows = self._list_tables()
        full_names = {tuple(part.lower() for part in row) for row in rows}
        parts = table.split(".")
        # A name may leave out its schema, or its database too.
        for full in ([home, schema, *parts], [home, *parts], parts):
            if tuple(part.lower() for part in full) in full_names:
                return ".".join(map(quote, full))
        # Not at the top: engines are opened without an experiment too.
        from abeval.experiment.problems import suggest_name

        names = [name for database, _, name in rows if database == home]
        what = f"logs.{log}: there is no table {table!r}{suggest_name(table, names)}"
        hint = f"tables and views: {', '.join(names) or 'none'}"
        raise LogError(what, hint if len(names) > 12 else None)

    def _list_tables(self) -> Sequence[tuple[Any, ...]]:
        """List tables and views: database, schema, name."""
        return self._run(
            "select database_name, schema_name, table_name from duckdb_tables() where not internal "
            "union select database_name, schema_name, view_name from duckdb_views() "
            "where not internal order by all"
        )

    def close(self) -> None:
        """Detach what was attached, and switch back to the caller's database."""
        if self._caller is not None:
            self._run(f"use {quote(self._home)}")
            for alias in reversed(self._attached):
                self._run(f"detach {quote(alias)}")

    def _attach(self, path: str, options: str) -> str:
        alias = f"abeval_{next(_RUNS)}"
        self._run(f"attach {literal(path)} as {quote(alias)} {options}")
        self._attached.append(alias)
        return alias
