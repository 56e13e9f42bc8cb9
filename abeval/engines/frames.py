"""Read frames: how DuckDB scans each kind, and plain ones as arrays.

A column is plain if its type alone tells what its values are: numbers, booleans, times, or text.
Of any other frame only DuckDB tells, which refuses what no log has.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from abeval.engines.duckdb_connection import log_errors
from abeval.engines.lakes import LakeRows
from abeval.engines.sql import quote
from abeval.errors import AbevalError, LogError
from abeval.experiment.sources import LogSource
from abeval.metrics.row_text import list_columns


class Stream:
    """Wrap only the Arrow stream of a frame; `close` ends it."""

    def __init__(self, frame: Any, close: Callable[[], object] | None = None) -> None:  # noqa: ANN401
        # Given the frame itself, DuckDB would need the package that it comes from.
        self._frame = frame
        self.close = close or (lambda: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


class AdbcTable(NamedTuple):
    """Name a table of an ADBC connection in SQL, with a condition on its rows."""

    connection: Any
    name: str
    condition: str = ""

    def rows(self) -> Stream:
        """Stream the rows, with all columns."""
        cursor = self.connection.cursor()
        # Databases quote names of columns differently, so all are read.
        cursor.execute(f"select * from {self.name} {self.condition}")
        return Stream(cursor.fetch_record_batch(), cursor.close)


def find_table(connection: Any, name: str) -> object:  # noqa: ANN401
    """Find a table of an open DuckDB or ADBC connection, as a frame."""
    if isinstance(connection, duckdb.DuckDBPyConnection):
        with log_errors(f"table {name!r} cannot be read", "name a table or view of the connection"):
            return connection.table(name)
    if hasattr(connection, "adbc_get_table_schema"):
        return AdbcTable(connection, name)
    raise LogError(
        f"connection: {type(connection).__name__} is neither of DuckDB nor of ADBC",
        "give one of these, or the table's rows as a frame",
    )


class FrameKind(NamedTuple):
    """Define how DuckDB reads a kind of frame, computing only what is read.

    `stream` makes what DuckDB can scan. Of frames that are computed when they are read, `empty`
    makes one without rows, None if that cannot be, and `choose` one of some columns. `is_counted`
    says that the length is known; others would be computed to count them.
    """

    stream: Callable[[Any], object] = Stream
    empty: Callable[[Any], Any] | None = lambda frame: frame.limit(0)
    choose: Callable[[Any, list[str]], Any] = lambda frame, columns: frame.select(columns)
    is_counted: bool = False


def _stream_ibis(table: Any) -> Stream:  # noqa: ANN401
    """Stream the rows of an Ibis table; of DuckDB by its own connection."""
    backend = table.get_backend()
    if backend.name == "duckdb":
        return Stream(backend.con.cursor().sql(str(table.compile())))
    return Stream(table.to_pyarrow_batches())


def _stream_polars(frame: Any) -> Stream:  # noqa: ANN401
    """Stream a Polars frame; DuckDB cannot read its columns without a type."""
    return Stream(frame.cast({c: str for c, kind in frame.schema.items() if str(kind) == "Null"}))


def _keep(frame: Any, columns: object = None) -> Any:  # noqa: ANN401
    """Return the frame itself, of which DuckDB chooses the columns."""
    return frame


_LAKE = FrameKind(LakeRows, LakeRows, lambda table, columns: LakeRows(table).select(columns))
_KINDS = {
    "pandas.DataFrame": FrameKind(_keep, _keep, _keep, is_counted=True),
    "polars.DataFrame": FrameKind(_stream_polars, is_counted=True),
    "polars.LazyFrame": FrameKind(lambda frame: _stream_polars(frame.collect())),
    "pyarrow.Table": FrameKind(empty=lambda table: table.slice(0, 0), is_counted=True),
    "ibis.Table": FrameKind(_stream_ibis),
    "duckdb.DuckDBPyRelation": FrameKind(
        choose=lambda relation, columns: relation.project(", ".join(map(quote, columns)))
    ),
    "deltalake.DeltaTable": _LAKE,
    "pyiceberg.Table": _LAKE,
    "abeval.LakeRows": FrameKind(_keep, _keep),
    "abeval.AdbcTable": FrameKind(
        AdbcTable.rows, lambda table: table._replace(condition="where 1 = 0"), _keep
    ),
}
"""Library and class of a frame → how it is read, without importing the library."""

_ONCE = FrameKind(empty=None, choose=_keep)
"""Of other libraries, whose frames may be read once only."""


def _find_known_kind(frame: object) -> FrameKind | None:
    kinds = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(frame).mro())
    return next((_KINDS[kind] for kind in kinds if kind in _KINDS), None)


def find_frame_kind(log: str, frame: object) -> FrameKind:
    """Find how a frame is read.

    Raises:
        LogError: It is no frame.
    """
    if (kind := _find_known_kind(frame)) is not None:
        return kind
    if hasattr(frame, "__arrow_c_stream__"):
        return _ONCE
    if hasattr(frame, "to_pyarrow"):
        return _ONCE._replace(stream=lambda frame: Stream(frame.to_pyarrow()))
    called = "None" if frame is None else type(frame).__name__
    raise LogError(
        f"{log}: {called} is not a frame",
        "give a pandas, Polars, Arrow or Ibis table, or a DuckDB relation",
    )


_FEW_ROWS = 1_000_000


def is_small(frame: Any) -> bool:  # noqa: ANN401 (any frame)
    """Tell whether a frame is known to have few rows."""
    kind = _find_known_kind(frame)
    return kind is not None and kind.is_counted and len(frame) < _FEW_ROWS


RENAME = (
    "rename the columns; in pandas: frame.columns = ['_'.join(map(str, c)).strip('_') if "
    "isinstance(c, tuple) else str(c) for c in frame.columns]"
)
"""Hint how names of columns become text."""


@contextmanager
def translate_frame_errors(log: str, frame: Any, hint: str) -> Iterator[None]:  # noqa: ANN401 (any frame)
    """Raise what the library of a frame raises as the error of a log."""
    try:
        yield
    except (AbevalError, MemoryError):
        raise
    except duckdb.Error as error:
        types = frame.dtypes.items() if hasattr(getattr(frame, "dtypes", None), "items") else ()
        for name, kind in types:
            if f"'{kind}'" in str(error):
                what = f"{log}: column {name!r} of the frame is {str(kind).partition('[')[0]}"
                raise LogError(f"{what}, which no log has", hint) from error
        raise
    except Exception as error:
        why = [*str(error).splitlines(), ""][0][:200]
        compute = "compute it first, and pass its rows as pandas, Polars or Arrow"
        raise LogError(f"{log}: the frame cannot be read: {why}", compute) from error


def check_names(frame: Any, log: str) -> None:  # noqa: ANN401 (any frame)
    """Raise if a frame has two columns of one name, or names that are no text."""
    has_schema = hasattr(frame, "collect_schema")
    names = frame.collect_schema().names() if has_schema else getattr(frame, "columns", ())
    seen = dict[str, str]()
    names = [*getattr(frame, "column_names", names)]
    compound_name = next((name for name in names if isinstance(name, tuple)), None)
    if compound_name is not None:
        raise LogError(f"{log}: the name of a column is {compound_name!r}, and no text", RENAME)
    if not names and hasattr(frame, "columns"):
        raise LogError(f"{log}: the frame has no columns", "give one with a name for each column")
    # DuckDB ignores case, and would give the second of two columns another name.
    for name in map(str, names):
        if name.lower() in seen:
            what = f"{log}: columns {seen[name.lower()]!r} and {name!r} have one name"
            raise LogError(what, "rename one, or leave it out")
        seen[name.lower()] = name


_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "str": "VARCHAR",
    "datetime64[s]": "TIMESTAMP_S",
    "datetime64[ms]": "TIMESTAMP_MS",
    "datetime64[us]": "TIMESTAMP",
    "datetime64[ns]": "TIMESTAMP_NS",
}
"""Type of a column in pandas → in DuckDB."""


def find_types(frame: Any, source: LogSource) -> dict[str, str] | None:  # noqa: ANN401 (any frame)
    """Find the types of a frame's columns in DuckDB.

    None if it has a column that is not plain, a blank row perhaps, or times to be read by a format.

    Example:
        >>> import pandas as pd
        >>> find_types(pd.DataFrame({"n": [1], "name": ["a"]}), LogSource())
        {'n': 'BIGINT', 'name': 'VARCHAR'}
    """
    if f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}" != "pandas.DataFrame":
        return None
    names, kinds = frame.columns.tolist(), [str(kind) for kind in frame.dtypes]
    are_names = all(isinstance(name, str) and 0 < len(name) < _LONGEST for name in names)
    if not are_names or len({name.lower() for name in names}) < len(names):
        return None
    for index in (i for i, kind in enumerate(kinds) if kind == "object"):
        if _infer_dtype(frame.iloc[:, index]) == "string":
            kinds[index] = "str"
    types = {name: _TYPES.get(kind, "") for name, kind in zip(names, kinds, strict=True)}
    time = source.columns.get("ts", "ts").lower()
    is_text_time = any(
        name.lower() == time and (kind == "VARCHAR" or source.ts_format is not None)
        for name, kind in types.items()
    )
    is_plain = len(frame) > 0 and all(types.values()) and not is_text_time
    # A row without a value in any column is none, and there is no such row if a column is whole.
    return types if is_plain and any(has_all_values(frame, name) for name in names) else None


_LONGEST = 1_000
"""Letters of a name beyond which SQL refuses it, with a hint."""


def _infer_dtype(column: Any) -> str:  # noqa: ANN401 (a series)
    from pandas.api.types import infer_dtype

    return infer_dtype(column, skipna=True)


def has_all_values(frame: Any, column: str) -> bool:  # noqa: ANN401 (a frame)
    """Tell whether a column has a value in every row."""
    return frame[column].dtype.kind in "biu" or not frame[column].isna().any()


def find_column(text: str, columns: Iterable[str]) -> str | None:
    """Find the column that an expression names; None if it is more than a name.

    Example:
        >>> find_column("Spend", ["spend"]), find_column("2 * spend", ["spend"])
        ('spend', None)
    """
    names = list_columns(text)
    if len(names) != 1 or text.lower() not in (names[0], quote(names[0])):
        return None
    return next((column for column in columns if column.lower() == names[0]), None)


def read_numbers(frame: Any, column: str) -> NDArray[np.float64]:  # noqa: ANN401 (a frame)
    """Read a column of numbers as doubles, NaN for nulls."""
    values: NDArray[np.float64] = frame[column].to_numpy(np.float64)
    return values


class Texts(NamedTuple):
    """Hold a text of each row as an index into `names`, -1 for a null."""

    code: NDArray[np.int64]
    names: list[str]


def read_texts(frame: Any, column: str) -> Texts | None:  # noqa: ANN401 (a frame)
    """Read a column's texts or whole numbers as texts; None if SQL must write them."""
    if frame[column].dtype.kind in "bfM":
        return None
    code, values = frame[column].factorize()
    # A member of an enumeration is a text too, but writes itself otherwise.
    are_plain = all(type(value) is str for value in values) or frame[column].dtype.kind in "iu"
    names = [str(value) for value in values]
    # What is no text in UTF-8 is refused where it is copied.
    are_texts = not any("\ud800" <= letter <= "\udfff" for name in names for letter in name)
    return Texts(code, names) if are_plain and are_texts else None
