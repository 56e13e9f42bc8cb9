"""The Spark session, the settings without which its answers would differ from DuckDB's, its errors.

`engine.py` hands it the experiment's `[engine]` if the caller gives no session, and changes the
settings of either while it is open. It runs queries and reads within `query_errors`: it turns some
of them into a `LogError`, or reads with DuckDB instead; the rest reach the user.
"""

import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from abeval.errors import QueryError
from abeval.experiment.sections import EngineOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushThreshold": "20000",
}
"""Settings of a session while abeval uses it; without them, answers may silently differ.

The last two bound what Spark's parser keeps of every statement, which filled a gigabyte.
"""

NO_HISTORY: Mapping[str, str] = {
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "100",
    "spark.ui.dagGraph.retainedRootRDDs": "1",
}
"""Settings of a session without a page, which needs no plans of past queries."""

_CONNECT = "sc://"
"""The beginning of addresses of Spark Connect."""


def open_session(options: EngineOptions) -> "tuple[SparkSession, bool]":
    """The session that an experiment asks for, and whether it was started here.

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
        raise QueryError(what, 'pip install "abeval[spark]", and Java 17 or newer') from error
    running = SparkSession.getActiveSession()
    if running is not None:
        _check_same(running, options.address)
        return running, False
    try:
        with warnings.catch_warnings():
            # pyspark warns of a newer pandas, but nothing here uses its pandas functions.
            warnings.simplefilter("ignore", FutureWarning)
            return _started(options), True
    except (PySparkException, RuntimeError, OSError) as error:
        what = f"Spark did not start: {str(error).splitlines()[0]}"
        raise QueryError(what, _missing(options.address or "")) from error


def _missing(address: str) -> str:
    if address.startswith(_CONNECT):
        return f'{address} needs pip install "pyspark[connect]"'
    return "is Java 17 or newer installed, and [engine] address right?"


def _check_same(running: "SparkSession", address: str | None) -> None:
    there = running.conf.get("spark.master", "")
    if address not in (None, there, running.conf.get("spark.remote", "")):
        raise QueryError(
            f"[engine] address is {address!r}, but a Spark session of {there!r} is running here",
            "stop it first, or remove the address",
        )


def _started(options: EngineOptions) -> "SparkSession":
    from pyspark.sql import SparkSession

    threads = options.threads or os.cpu_count() or 1
    address = options.address or f"local[{threads}]"
    builder = SparkSession.builder.appName("abeval")
    if address.startswith(_CONNECT):
        _check_answers(address)
        return builder.remote(address).getOrCreate()
    builder = builder.master(address).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR").config(map=dict(NO_HISTORY))
    if address.startswith("local"):
        # Two per core: the default of 200 is meant for a cluster.
        builder = builder.config("spark.sql.shuffle.partitions", 2 * threads)
    if options.memory is not None:
        builder = builder.config("spark.driver.memory", f"{max(1, options.memory >> 20)}m")
    if options.temp_directory is not None:
        builder = builder.config("spark.local.dir", options.temp_directory)
    return builder.getOrCreate()


def _check_answers(address: str) -> None:
    """Fail at once if no server answers; a client of Spark Connect would retry for minutes."""
    parts = urlsplit(address)
    try:
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
        raise QueryError(f"Spark could not run a query: {_message(error)}") from error


def _message(error: Exception) -> str:
    """What Spark says, without Java's stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("[") or ": [" in line] or lines
    text = messages[0] if messages else type(error).__name__
    return text[text.index("[") :] if "[" in text else text
