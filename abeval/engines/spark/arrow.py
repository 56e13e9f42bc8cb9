"""Arrow tables: rows that come back from Spark, and frames that go to it.

`engine.py` calls it on what Spark returns, and on logs that it sends to a Spark elsewhere.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from abeval.engines.protocol import Cell

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray


def rows_of(table: "pa.Table") -> Sequence[tuple[Cell, ...]]:
    """Rows of Python values."""
    return list(zip(*map(_cells, table.columns), strict=True))


def _cells(column: "pa.ChunkedArray") -> list[Cell]:
    """The values of a column; decimals without a fraction as integers."""
    import pyarrow as pa

    values: list[Cell] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def frame_of(table: "pa.Table") -> "pd.DataFrame":
    """A pandas frame; decimals, such as large ids and sums, as numbers that pandas has."""
    for place, column in enumerate(table.columns):
        table = table.set_column(place, table.schema[place].name, _number(column))
    frame: pd.DataFrame = table.to_pandas(date_as_object=False)
    return frame


def arrays_of(table: "pa.Table") -> "dict[str, NDArray[np.generic]]":
    """The columns as arrays, masked where something is null."""
    import numpy as np

    arrays: dict[str, NDArray[np.generic]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = _number(column).combine_chunks()
        if values.null_count:
            filled = values.drop_null()[:1]
            mask = values.is_null().to_numpy(zero_copy_only=False)
            values = values.fill_null(filled[0] if len(filled) else 0)
            arrays[name] = np.ma.array(values.to_numpy(zero_copy_only=False), mask=mask)
        else:
            arrays[name] = values.to_numpy(zero_copy_only=False)
    return arrays


def _number(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """A decimal as an integer if it fits, since a double would round a large id."""
    import pyarrow as pa

    if not pa.types.is_decimal(column.type):
        return column
    for kind in (pa.int64(), pa.uint64()) if column.type.scale == 0 else ():
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column.cast(pa.float64())


def without_unsigned(table: "pa.Table") -> "pa.Table":
    """Unsigned columns as the types that Spark reads them as from Parquet; it has none itself."""
    import pyarrow as pa

    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
    }
    types = [field.with_type(wider.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(types))
