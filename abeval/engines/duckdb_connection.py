"""Open connections to DuckDB: what they may use and read, how they fail."""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from weakref import WeakSet

import duckdb

from abeval.engines.sources import spell_paths
from abeval.engines.sql import literal
from abeval.errors import LogError, QueryError
from abeval.experiment.sections import EngineOptions
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


def open_scratch(options: EngineOptions | None) -> Scratch | None:
    """Open a folder for what does not fit into memory, if options ask for it."""
    if options is None or (options.memory_limit is None and options.temp_directory is None):
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


def connect(options: EngineOptions | None, scratch: Scratch | None) -> duckdb.DuckDBPyConnection:
    """Open the connection of an engine, in memory or to a temporary file."""
    memory = None if options is None else options.memory
    database = ":memory:"
    if scratch is not None and memory is not None:
        database = str(scratch.path / "run.duckdb")
    settings = {name: getattr(options, name, None) for name in ("threads", "temp_directory")}
    if memory is not None:
        # The other half is for arrays of units and for Python, of which DuckDB knows nothing.
        settings["memory_limit"] = f"{memory // 2}B"
    if scratch is not None:
        settings["temp_directory"] = str(scratch.path / "spill")
    # Starting a thread for each processor takes longer than a small log.
    config = {"threads": 1} | {n: value for n, value in settings.items() if value is not None}
    if scratch is not None:
        # What a run reads once or twice is not worth the time that compressing it takes.
        config["force_compression"] = "uncompressed"
    if options is None or not options.remote_files:
        config |= NO_EXTENSIONS
    if memory is not None:
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


def open_sibling_cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
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
