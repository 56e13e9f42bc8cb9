"""Logs that Spark would read differently: DuckDB reads them and writes Parquet for Spark.

CSV and JSON files have no types, and frames have types that Spark does not know. With one reader, a
column has the same type and values on both engines.

`engine.py` hands it a log or a frame, and makes the file a relation.
"""

import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sources import files_of_log
from abeval.engines.sql import literal, quoted
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource

_AS: Mapping[str, str] = {
    r"U?HUGEINT": "decimal(38, 0)",
    r"UUID|ENUM\(.*\)|TIME( WITH TIME ZONE)?|INTERVAL|BIT": "varchar",
    r"TIMESTAMP_(S|MS|NS)": "timestamp",
    r"TIMESTAMPTZ_NS": "timestamp with time zone",
    r'"NULL"': "bigint",
}
"""Types that Parquet does not have or Spark cannot read, and what they are written as."""


def staged(
    name: str,
    source: LogSource | None,
    frame: object | None,
    folder: Path,
    file: Path,
    options: EngineOptions,
) -> Mapping[str, str]:
    """Write a log to a Parquet file.

    Args:
        name: The relation that holds it.
        source: Its entry in the experiment file; None for a frame that is no log.
        frame: Its rows, if they come from Python.
        folder: Where relative paths start.
        file: What is written.
        options: Of the engine that reads.

    Returns:
        DuckDB's type of each column.

    Raises:
        LogError: It cannot be read.
    """
    with closing(DuckDBEngine(options, folder)) as engine:
        files = [] if source is None or frame is not None else files_of_log(name, source, folder)
        engine.confine(files, [str(file.parent)])
        if frame is not None:
            engine.add_frame(name, frame, source)
        elif source is not None:
            engine.add_log(name, source)
        types = engine.columns(name)
        columns = ", ".join(_column(column, kind) for column, kind in types.items())
        copied = f"copy (select {columns} from {quoted(name)}) to {literal(str(file))}"
        engine.rows(f"{copied} (format parquet)")
    return types


def types_of(name: str, source: LogSource, folder: Path) -> Mapping[str, str]:
    """DuckDB's type of each column of a log."""
    with closing(DuckDBEngine(None, folder)) as engine:
        engine.confine(files_of_log(name, source, folder))
        engine.add_log(name, source)
        return engine.columns(name)


def _column(column: str, kind: str) -> str:
    to = next((t for pattern, t in _AS.items() if re.fullmatch(pattern, kind, re.DOTALL)), None)
    name = quoted(column)
    return name if to is None else f"cast({name} as {to}) as {name}"
