"""Which engine an analysis runs on.

`logs/run.py` gives it the experiment's `[engine]` and the caller's connection or session, and
puts the engine into the `Run` that every step gets.
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.experiment.sections import EngineOptions

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

    EngineChoice: TypeAlias = "str | SparkSession | None"

ENGINES = ("duckdb", "spark")


def open_engine(
    options: EngineOptions,
    folder: Path,
    connection: "duckdb.DuckDBPyConnection | None" = None,
    choice: "EngineChoice" = None,
) -> Engine:
    """The engine that the caller chooses, or by default the experiment.

    Args:
        options: The experiment's `[engine]`.
        folder: Where relative paths of logs start.
        connection: The caller's DuckDB connection.
        choice: `duckdb`, `spark`, the caller's Spark session, or None for the experiment's choice.

    Raises:
        ExperimentError: The choice is none of them, or there is a connection but no DuckDB engine.
        QueryError: The engine does not start.
    """
    session = None if isinstance(choice, str) else choice
    name = choice if isinstance(choice, str) else options.name if session is None else "spark"
    if name not in ENGINES or (session is not None and not hasattr(session, "sql")):
        raise ExperimentError(
            f"unknown engine {choice!r}",
            "use 'duckdb', 'spark' or a SparkSession; pass a DuckDB connection as `connection`",
        )
    if name == "duckdb":
        from abeval.engines.duckdb import DuckDBEngine

        return DuckDBEngine(options, folder, connection)
    if connection is not None:
        raise ExperimentError("a DuckDB connection cannot be used with the Spark engine")
    from abeval.engines.spark.engine import SparkEngine

    return SparkEngine(options, folder, session)
