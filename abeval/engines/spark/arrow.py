"""Arrow tables: rows that come back from Spark, frames that go to it, and rows that stay there.

`engine.py` calls it on what Spark returns, and on logs that it sends to a Spark elsewhere. Kernels
run beside rows on the executors, which need abeval, with NumPy and PyArrow.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from abeval.engines.protocol import Cell, Result
from abeval.engines.spark.session import query_errors

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from abeval.engines.protocol import Columns


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


class SparkRows:
    """Rows that stay on the executors, in the parts of a frame.

    Args:
        frame: Numbers without nulls.
    """

    def __init__(self, frame: "DataFrame") -> None:
        self._frame = frame.persist()

    def each(self, work: "Callable[[Columns], Result]") -> list[Result]:
        """Run a function beside each part that has rows, and fetch what it returns."""

        def answered(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa

            listed = [batch for batch in batches if batch.num_rows]
            if listed:
                answer = pickle.dumps(work(arrays_of(pa.Table.from_batches(listed))))
                yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

        with query_errors(), warnings.catch_warnings():
            # pyspark warns of a newer pandas, but nothing here uses its pandas functions.
            warnings.simplefilter("ignore", FutureWarning)
            answers = self._frame.mapInArrow(answered, "answer binary").toArrow()
        return [pickle.loads(answer.as_py()) for answer in answers["answer"]]  # noqa: S301 (our own)

    def close(self) -> None:
        """Forget the rows."""
        self._frame.unpersist()
