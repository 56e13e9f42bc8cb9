"""Rows on Spark's executors, and functions that run beside them.

`engine.py` gives them to the kernels. The executors need abeval, with NumPy and PyArrow.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from abeval.engines.protocol import Result
from abeval.engines.spark.arrow import arrays_of
from abeval.engines.spark.errors import query_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from abeval.engines.protocol import Columns


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
