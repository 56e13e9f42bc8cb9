"""Frames of callers, as DuckDB scans them: what their columns are, and the rows of some columns.

`duckdb_logs.py` hands it the frames that logs are made of. Of lazy ones nothing is computed but the
columns that are read, and none becomes a pandas frame on the way.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import duckdb

from abeval.engines.duckdb_connection import log_errors
from abeval.engines.sql import quoted
from abeval.errors import LogError


class AdbcTable(NamedTuple):
    """A table of a database.

    Attributes:
        connection: An ADBC connection, as `adbc_driver_sqlite.dbapi.connect` gives.
        name: As SQL of the database names it.
    """

    connection: Any
    name: str

    def rows(self, condition: str = "") -> "Stream":
        """A stream of its rows; of all columns, because databases quote names differently."""
        cursor = self.connection.cursor()
        cursor.execute(f"select * from {self.name} {condition}")
        return Stream(cursor.fetch_record_batch(), cursor.close)


class Stream:
    """The Arrow stream of a frame, and nothing else, so that DuckDB needs no other package.

    Args:
        frame: Has the stream.
        close: Called when it has been read.
    """

    def __init__(self, frame: Any, close: Callable[[], object] | None = None) -> None:  # noqa: ANN401
        self._frame = frame
        self.close = close or (lambda: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def table_of(connection: Any, name: str) -> object:  # noqa: ANN401
    """A table of an open connection, as a frame.

    Args:
        connection: Of DuckDB, or of an ADBC driver.
        name: The table, as SQL names it.

    Raises:
        LogError: There is no such table, or the connection is of another kind.
    """
    if isinstance(connection, duckdb.DuckDBPyConnection):
        with log_errors(f"table {name!r} cannot be read", "name a table or view of the connection"):
            return connection.table(name)
    if hasattr(connection, "adbc_get_table_schema"):
        return AdbcTable(connection, name)
    raise LogError(
        f"connection: {type(connection).__name__} is neither of DuckDB nor of ADBC",
        "give one of these, or the table's rows as a frame",
    )


def described(frame: Any) -> object:  # noqa: ANN401
    """What DuckDB can describe in place of a frame: some of its rows, or none.

    None for a frame that can be read only once, and as a whole.
    """
    match _kind(frame):
        case "pandas.DataFrame":
            return frame.head(_LOOKED_AT).copy()
        case "polars.DataFrame" | "pyarrow.Table":
            return Stream(frame.slice(0, 0))
        case "polars.LazyFrame":
            return Stream(frame.limit(0).collect())
        case "ibis.Table":
            return Stream(_of_ibis(frame.limit(0)))
        case "duckdb.DuckDBPyRelation":
            return Stream(frame.limit(0))
        case "abeval.AdbcTable":
            return frame.rows("where 1 = 0")
    return None


_LOOKED_AT = 1000
"""Rows that tell the types of a pandas frame's objects."""


def scanned(frame: Any, columns: Mapping[str, int] | None, log: str) -> object:  # noqa: ANN401
    """What DuckDB can scan in place of a frame, once.

    Args:
        frame: pandas, Polars, Arrow or Ibis, a DuckDB relation, or a table of ADBC.
        columns: The columns that are read, each with its place among all; None for all of them.
        log: The log's name, for messages.

    Raises:
        LogError: It is no frame.
    """
    match _kind(frame):
        case "pandas.DataFrame":
            # A copy, because DuckDB cannot read the strided columns of a reversed or sliced frame.
            return (frame if columns is None else frame.iloc[:, [*columns.values()]]).copy()
        case "polars.LazyFrame":
            return Stream((frame if columns is None else frame.select(*columns)).collect())
        case "ibis.Table":
            return Stream(_of_ibis(frame if columns is None else frame.select(*columns)))
        case "abeval.AdbcTable":
            return frame.rows()
        case "duckdb.DuckDBPyRelation" if columns is not None:
            return Stream(frame.project(", ".join(map(quoted, columns))))
        case "polars.DataFrame" | "pyarrow.Table" if columns is not None:
            return Stream(frame.select([*columns]))
    if not hasattr(frame, "__arrow_c_stream__"):
        raise LogError(
            f"{log}: {type(frame).__name__} is not a frame",
            "give a pandas, Polars, Arrow or Ibis table, or a DuckDB relation",
        )
    return Stream(frame)


def _kind(frame: object) -> str:
    """The library and the class of a frame, by which none of the libraries is imported."""
    kinds = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(frame).mro())
    return next((kind for kind in kinds if kind in _KINDS), "")


_KINDS = (
    "pandas.DataFrame",
    "polars.DataFrame",
    "polars.LazyFrame",
    "pyarrow.Table",
    "ibis.Table",
    "duckdb.DuckDBPyRelation",
    "abeval.AdbcTable",
)


def _of_ibis(table: Any) -> Any:  # noqa: ANN401
    """The rows of an Ibis table as a stream; of DuckDB by its own connection."""
    backend = table.get_backend()
    if backend.name == "duckdb":
        return backend.con.cursor().sql(str(table.compile()))
    return table.to_pyarrow_batches()
