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
from abeval.engines.sql import literal, quoted
from abeval.experiment.model import EngineOptions, LogSource

_AS: Mapping[str, str] = {
    r"U?HUGEINT": "decimal(38, 0)",
    r"UUID|ENUM\(.*\)|TIME( WITH TIME ZONE)?|INTERVAL|BIT": "varchar",
    r"TIMESTAMP_(S|MS|NS)": "timestamp",
    r"TIMESTAMPTZ_NS": "timestamp with time zone",
    r'"NULL"': "bigint",
}
"""Types that Parquet does not have or Spark cannot read, and what they are written as."""


def staged(
    name: str, source: object, folder: Path, file: Path, options: EngineOptions
) -> Mapping[str, str]:
    """Write a log or a frame to a Parquet file.

    Returns:
        DuckDB's type of each column.

    Raises:
        LogError: It cannot be read.
    """
    with closing(DuckDBEngine(options, folder)) as engine:
        types = _types(engine, name, source)
        columns = ", ".join(_column(column, kind) for column, kind in types.items())
        copied = f"copy (select {columns} from {quoted(name)}) to {literal(str(file))}"
        engine.rows(f"{copied} (format parquet)")
    return types


def types_of(name: str, source: object, folder: Path) -> Mapping[str, str]:
    """DuckDB's type of each column of a log."""
    with closing(DuckDBEngine(None, folder)) as engine:
        return _types(engine, name, source)


def _types(engine: DuckDBEngine, name: str, source: object) -> Mapping[str, str]:
    if isinstance(source, LogSource):
        engine.add_log(name, source)
    else:
        engine.add_frame(name, source)
    return engine.columns(name)


def _column(column: str, kind: str) -> str:
    to = next((t for pattern, t in _AS.items() if re.fullmatch(pattern, kind, re.DOTALL)), None)
    name = quoted(column)
    return name if to is None else f"cast({name} as {to}) as {name}"
