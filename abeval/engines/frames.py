"""Read a pandas frame of plain columns as arrays, as DuckDB would read it.

A column is plain if its type alone tells what its values are: numbers, booleans, times, or text.
Of any other frame only DuckDB tells, which refuses what no log has.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import quote
from abeval.experiment.sources import LogSource
from abeval.metrics.row_text import list_columns

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
    """Read the texts of a column, or of whole numbers; None where SQL has to write them."""
    if frame[column].dtype.kind in "bfM":
        return None
    code, values = frame[column].factorize()
    # A member of an enumeration is a text too, but writes itself otherwise.
    are_plain = all(type(value) is str for value in values) or frame[column].dtype.kind in "iu"
    names = [str(value) for value in values]
    # What is no text in UTF-8 is refused where it is copied.
    are_texts = not any("\ud800" <= letter <= "\udfff" for name in names for letter in name)
    return Texts(code, names) if are_plain and are_texts else None
