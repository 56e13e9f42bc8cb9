"""What Spark would read in a way of its own, read by DuckDB and handed on as Parquet.

A CSV or JSON file has no types, and a frame has some that Spark does not know: with one reader a
column is the same thing on both engines.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import literal, quoted
from abeval.experiment.model import EngineOptions, LogSource

_AS: Mapping[str, str] = {
    r"U?HUGEINT": "decimal(38, 0)",
    r"UUID|ENUM\(.*\)|TIME( WITH TIME ZONE)?|INTERVAL|BIT": "varchar",
    r"TIMESTAMP_(S|MS|NS)": "timestamp",
    r'"NULL"': "bigint",
}
"""Types that Parquet does not hold as they are, or that Spark cannot read from it."""


def staged(
    name: str, source: object, folder: Path, file: Path, options: EngineOptions
) -> Mapping[str, str]:
    """Write a log or a frame to a Parquet file, and say its columns and types as DuckDB has them.

    Raises:
        LogError: It cannot be read.
    """
    engine = DuckDBEngine(options, folder)
    try:
        _add(engine, name, source)
        types = engine.columns(name)
        columns = ", ".join(_column(column, kind) for column, kind in types.items())
        copied = f"copy (select {columns} from {quoted(name)}) to {literal(str(file))}"
        engine.rows(f"{copied} (format parquet)")
    finally:
        engine.close()
    return types


def types_of(name: str, source: object, folder: Path) -> Mapping[str, str]:
    """The columns and types of a log as DuckDB has them."""
    engine = DuckDBEngine(None, folder)
    try:
        _add(engine, name, source)
        return engine.columns(name)
    finally:
        engine.close()


def _add(engine: DuckDBEngine, name: str, source: object) -> None:
    if isinstance(source, LogSource):
        engine.add_log(name, source)
    else:
        engine.add_frame(name, source)


def _column(column: str, kind: str) -> str:
    to = next((t for pattern, t in _AS.items() if re.fullmatch(pattern, kind, re.DOTALL)), None)
    name = quoted(column)
    return name if to is None else f"cast({name} as {to}) as {name}"
