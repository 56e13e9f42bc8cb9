"""Connections to DuckDB: what they may use and open, how they fail, and their rows as arrays."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from abeval.engines.sources import spelled
from abeval.engines.sql import literal
from abeval.errors import LogError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.scratch import Scratch


def confinement(files: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Write statements after which a connection opens only these files and folders.

    No extension can be loaded after them, and no setting changed.
    """
    # A database may have a write-ahead log that is still to be read.
    named = spelled([*files, *(f"{file}.wal" for file in files)])
    inside = spelled([str(Path(folder).absolute()) for folder in folders])
    return [
        f"set allowed_paths = [{', '.join(map(literal, named))}]",
        f"set allowed_directories = [{', '.join(map(literal, inside))}]",
        "set enable_external_access = false",
        "set lock_configuration = true",
    ]


def open_scratch(options: EngineOptions | None) -> Scratch | None:
    """Open a folder for what does not fit into memory, where options name one or limit memory."""
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
"""Settings without which a path such as `https://…` downloads and runs an extension."""


def connect(options: EngineOptions | None, scratch: Scratch | None) -> duckdb.DuckDBPyConnection:
    """Open a connection of a run: in memory, or to a file where memory is limited."""
    limited = getattr(options, "memory_limit", None) is not None
    database = str(scratch.path / "run.duckdb") if scratch is not None and limited else ":memory:"
    names = ("memory_limit", "threads", "temp_directory")
    settings = {name: getattr(options, name, None) for name in names}
    if scratch is not None:
        settings["temp_directory"] = str(scratch.path / "spill")
    config = {name: value for name, value in settings.items() if value is not None}
    if scratch is not None:
        # What a run reads once or twice is not worth the time that compressing it takes.
        config["force_compression"] = "uncompressed"
    if options is None or not options.remote_files:
        config |= NO_EXTENSIONS
    if limited:
        # What DuckDB has freed would stay with its allocator: the arrays that follow need it.
        config["allocator_bulk_deallocation_flush_threshold"] = "1MB"
    try:
        return duckdb.connect(database, config=config)
    except duckdb.Error as error:
        if scratch is not None:
            scratch.close()
        what = f"DuckDB does not accept these [engine] options: {message(error)}"
        raise QueryError(what, "memory_limit is a size such as 4GB, threads a number") from error


def beside(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Open a second connection to the caller's database, with its own names and settings."""
    try:
        return connection.cursor()
    except duckdb.Error as error:
        what = f"the connection cannot be used: {message(error)}"
        raise QueryError(what, "pass an open connection") from error


_MEMORY = "raise [engine] memory_limit, lower threads, or name a temp_directory with free space"


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise what DuckDB raises as the error of a query."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"DuckDB ran out of memory: {message(error)}", _MEMORY) from error
    except duckdb.Error as error:
        raise QueryError(f"DuckDB could not run a query: {message(error)}") from error


@contextmanager
def log_errors(what: str, hint: str) -> Iterator[None]:
    """Raise what DuckDB raises as the error of a log."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"{what}: {message(error)}", _MEMORY) from error
    except (duckdb.Error, RuntimeError, ValueError, TypeError) as error:
        raise LogError(f"{what}: {message(error)}", hint) from error


def message(error: Exception) -> str:
    """Return DuckDB's message without the query's text and advice on DuckDB's own options."""
    lines = str(error).split("\n\n")[0].splitlines()
    kept = [line.strip() for line in lines if not line.startswith(("Original Line", "LINE "))]
    return " ".join(kept[:2])


Columns = dict[str, NDArray[np.generic]]

_TYPES = {
    **{b"c": np.int8, b"s": np.int16, b"i": np.int32, b"l": np.int64},
    **{b"C": np.uint8, b"S": np.uint16, b"I": np.uint32, b"L": np.uint64},
    **{b"f": np.float32, b"g": np.float64},
}
"""Format of the interface → type of the values in its buffer."""

_BITS = b"b"
"""The format of true and false, of which a byte holds eight."""


class _Schema(ctypes.Structure): ...


class _Array(ctypes.Structure): ...


class _Stream(ctypes.Structure): ...


_Schema._fields_ = [
    *(("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64)),
    *(("n_children", c_int64), ("children", POINTER(POINTER(_Schema)))),
    *(("dictionary", c_void_p), ("release", ctypes.CFUNCTYPE(None, POINTER(_Schema)))),
    ("private_data", c_void_p),
]
_Array._fields_ = [
    *(("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64)),
    *(("n_children", c_int64), ("buffers", POINTER(c_void_p))),
    *(("children", POINTER(POINTER(_Array))), ("dictionary", c_void_p)),
    *(("release", ctypes.CFUNCTYPE(None, POINTER(_Array))), ("private_data", c_void_p)),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(c_int, POINTER(_Stream), POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(c_int, POINTER(_Stream), POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(c_char_p, POINTER(_Stream))),
    *(("release", c_void_p), ("private_data", c_void_p)),
]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]


class ArrayStream:
    """The rows of a relation of numbers without nulls.

    Example:
        >>> stream = ArrayStream(duckdb.sql("select 1 as n, 0.5::double as x"))
        >>> stream.fetch(), stream.fetch()
        ({'n': array([1], dtype=int32), 'x': array([0.5])}, None)
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        # The stream is released with its capsule.
        self._capsule = relation.__arrow_c_stream__(None)
        address = _pointer(self._capsule, b"arrow_array_stream")
        self._stream = ctypes.cast(address, POINTER(_Stream))
        schema = _Schema()
        self._check(self._stream.contents.get_schema(self._stream, byref(schema)))
        fields = [schema.children[place].contents for place in range(schema.n_children)]
        self._formats = {field.name.decode(): field.format for field in fields}
        schema.release(byref(schema))

    def fetch(self) -> Columns | None:
        """Fetch the next rows, some 100,000, of numbers, true and false; None after the last."""
        rows = _Array()
        self._check(self._stream.contents.get_next(self._stream, byref(rows)))
        if not rows.release:
            return None
        try:
            return {
                name: _copied(name, rows.children[place].contents, kind)
                for place, (name, kind) in enumerate(self._formats.items())
            }
        finally:
            rows.release(byref(rows))

    def _check(self, code: int) -> None:
        if code:
            said = self._stream.contents.get_last_error(self._stream) or b"no rows came"
            raise duckdb.Error(said.decode())


def _copied(name: str, column: _Array, kind: bytes) -> NDArray[np.generic]:
    if (kind not in _TYPES and kind != _BITS) or column.null_count:
        raise duckdb.ConversionException(
            f"column {name} has other values than numbers, true and false"
        )
    if kind == _BITS:
        end = column.offset + column.length
        buffer = (c_char * ((end + 7) // 8)).from_address(column.buffers[1]) if end else b""
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")
        return bits[column.offset :].astype(bool)
    values = np.dtype(_TYPES[kind])
    size, start = column.length * values.itemsize, column.offset * values.itemsize
    buffer = (c_char * size).from_address(column.buffers[1] + start) if size else b""
    return np.frombuffer(buffer, dtype=values).copy()
