"""Open the Spark session; its settings, its errors, its rows."""

import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from abeval.engines.sql import Cell
from abeval.errors import QueryError
from abeval.experiment.sections import EngineOptions
from abeval.packaged import load_toml_next_to

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

TABLE: Mapping[str, Mapping[str, str]] = load_toml_next_to(__file__, "spark.toml")
"""Settings of Spark, and the names of its types."""

_CONNECT = "sc://"
"""Prefix of addresses of Spark Connect."""


def open_session(options: EngineOptions) -> "tuple[SparkSession, bool]":
    """Open the session that an experiment asks for; tell whether it is new.

    Without an address, the session that is running in this process, else a local one.

    Raises:
        QueryError: pyspark or Java is missing, or Spark does not start.
    """
    # This logger prints Java's whole trace for every failed query; our error says it in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        what = f"the Spark engine needs pyspark and pyarrow: {error}"
        raise QueryError(what, 'pip install "abeval-logs[spark]", and Java 17 or newer') from error
    running = SparkSession.getActiveSession()
    if running is not None:
        there = running.conf.get("spark.master", "")
        if options.address not in (None, there, running.conf.get("spark.remote", "")):
            what = f"[engine] address is {options.address!r}, but a Spark session of {there!r}"
            raise QueryError(f"{what} is running here", "stop it first, or remove the address")
        return running, False
    try:
        with warnings.catch_warnings():
            # pyspark warns of a newer pandas, but nothing here uses its pandas functions.
            warnings.simplefilter("ignore", FutureWarning)
            return _start_session(options), True
    except (PySparkException, RuntimeError, OSError) as error:
        hint = "is Java 17 or newer installed, and [engine] address right?"
        if (options.address or "").startswith(_CONNECT):
            hint = f'{options.address} needs pip install "pyspark[connect]"'
        raise QueryError(f"Spark did not start: {str(error).splitlines()[0]}", hint) from error


def _start_session(options: EngineOptions) -> "SparkSession":
    from pyspark.sql import SparkSession

    threads = options.threads or os.cpu_count() or 1
    # Java was started by spark-submit, which was told the master.
    is_submitted = options.address is None and "PYSPARK_GATEWAY_PORT" in os.environ
    address = options.address or ("" if is_submitted else f"local[{threads}]")
    builder = SparkSession.builder.appName("abeval")
    if address.startswith(_CONNECT):
        _check_answers(address)
        return builder.remote(address).getOrCreate()
    if address:
        builder = builder.master(address)
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR").config(map=dict(TABLE["no_history"]))
    if address.startswith("local"):
        # Two per core: the default of 200 is meant for a cluster.
        builder = builder.config("spark.sql.shuffle.partitions", 2 * threads)
    if options.memory is not None:
        builder = builder.config("spark.driver.memory", f"{max(1, options.memory >> 20)}m")
    if options.temp_directory is not None:
        builder = builder.config("spark.local.dir", options.temp_directory)
    return builder.getOrCreate()


def _check_answers(address: str) -> None:
    """Raise at once if no server answers."""
    parts = urlsplit(address)
    try:
        # A client of Spark Connect would retry for minutes.
        with socket.create_connection((parts.hostname or "", parts.port or 15002), timeout=20):
            pass
    except OSError as error:
        what = f"no Spark Connect server answers at {address!r}: {error}"
        raise QueryError(what, "is it running, and [engine] address right?") from error


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise what Spark raises as the error of a query."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise QueryError(f"Spark could not run a query: {_extract_message(error)}") from error


def _extract_message(error: Exception) -> str:
    """Return what Spark says, without Java's stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("[") or ": [" in line] or lines
    text = messages[0] if messages else type(error).__name__
    return text[text.index("[") :] if "[" in text else text


def read_rows(table: "pa.Table") -> Sequence[tuple[Cell, ...]]:
    """Read rows as Python values."""
    return list(zip(*map(_list_cells, table.columns), strict=True))


def _list_cells(column: "pa.ChunkedArray") -> list[Cell]:
    """Return the values of a column; decimals without a fraction as integers."""
    import pyarrow as pa

    values: list[Cell] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def read_frame(table: "pa.Table") -> "pd.DataFrame":
    """Read a pandas frame."""
    for index, column in enumerate(table.columns):
        # Pandas has no decimals: large ids and sums become numbers.
        table = table.set_column(index, table.schema[index].name, _number(column))
    frame: pd.DataFrame = table.to_pandas(date_as_object=False)
    return frame


def read_arrays(table: "pa.Table") -> "dict[str, NDArray[np.generic]]":
    """Read columns as arrays, masked where something is null."""
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
    """Cast a decimal to an integer if it fits, since a double would round a large id."""
    import pyarrow as pa

    if not pa.types.is_decimal(column.type):
        return column
    for kind in (pa.int64(), pa.uint64()) if column.type.scale == 0 else ():
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column.cast(pa.float64())
