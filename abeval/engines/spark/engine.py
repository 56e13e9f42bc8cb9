"""Apache Spark: the same queries, past one machine."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from sqlglot import exp

from abeval.engines import builders, sources
from abeval.engines.protocol import Cell
from abeval.engines.queries import is_query
from abeval.engines.spark.numbering import numbered, numbering_of
from abeval.engines.spark.session import SETTINGS, open_session
from abeval.engines.spark.staging import staged, types_of
from abeval.engines.transpile import parsed, transpiled
from abeval.errors import LogError, QueryError
from abeval.experiment.model import EngineOptions, LogSource
from abeval.experiment.problems import suggestion

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_RUNS = count(1)
"""Numbers what is named in a session, so that runs and the user's own views do not meet."""


class SparkEngine:
    """Queries on a Spark session; only their answers come back.

    Views are temporary views. Tables are computed once and checkpointed where Spark's executors
    keep their blocks, so that a plan never grows with the analysis and nothing is computed twice.

    Args:
        options: Address, memory, threads and temporary folder of a session to be started.
        folder: Where relative paths of logs start.
        session: The caller's own session, whose tables and views logs may name. Its settings are
            changed while the engine is open, and `close` puts them back.
    """

    def __init__(
        self,
        options: EngineOptions | None = None,
        folder: Path = Path(),
        session: "SparkSession | None" = None,
    ) -> None:
        self._folder = folder
        self._options = options or EngineOptions()
        if session is None:
            self._session, self._own = open_session(self._options)
        else:
            self._session, self._own = session, False
        self._prefix = f"abeval_{next(_RUNS)}_"
        self._types: dict[str, Mapping[str, str]] = {}
        self._scratch: Path | None = None
        with _asking():
            self._before = {name: self._session.conf.get(name, None) for name in SETTINGS}
            for name, value in SETTINGS.items():
                self._session.conf.set(name, value)

    def add_log(self, name: str, source: LogSource) -> None:
        """Make files or a table readable as the relation `name`."""
        log = name.removeprefix("raw_")
        if source.table is not None and source.database is None:
            self._add(name, self._table_of(log, source.table))
            return
        if source.table is not None:
            self._stage(name, source)
            return
        files = sources.files_of(log, source.paths, self._folder)
        if sources.kind_of(log, files, source.format) != "parquet":
            self._stage(name, source)
            return
        self._add_parquet(name, files, source)

    def add_frame(self, name: str, frame: object) -> None:
        """Make a frame (Spark's own, pandas, Polars, Arrow) the relation `name`."""
        from pyspark.sql import DataFrame

        if isinstance(frame, DataFrame):
            self._add(name, frame)
        else:
            self._stage(name, frame)

    def columns(self, relation: str) -> Mapping[str, str]:
        """Column names and types of a relation, in its order, by DuckDB's names."""
        return self._types[relation]

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        tree = parsed(sql)
        if _numbers_rows(tree):
            # Rows come in another order each time, and a number must stay with its row.
            self.table(name, sql)
            return
        with _asking():
            text = self._text(tree, is_query(sql))
            self._session.sql(f"create or replace temporary view {self._prefix}{name} as {text}")
            self._types[name] = self._typed(self._session.table(self._prefix + name))

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        tree, trusted = parsed(sql), is_query(sql)
        told = numbering_of(tree)
        with _asking():
            if told is None:
                rows = self._session.sql(self._text(tree, trusted))
            else:
                rows = numbered(self._session.sql(self._text(told.rows, trusted)), told)
            self._add(name, rows.localCheckpoint(eager=True))

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        with _asking():
            table = self._query(sql).toArrow()
        return list(zip(*map(_cells, table.columns), strict=True))

    def frame(self, sql: str) -> pd.DataFrame:
        """Run a query and fetch its rows as a frame."""
        with _asking():
            table = self._query(sql).toArrow()
        frame: pd.DataFrame = _with_numbers(table).to_pandas(date_as_object=False)
        return frame

    def epoch_ms(self, timestamp: str) -> str:
        """SQL: milliseconds since 1970 of a UTC timestamp expression."""
        return builders.epoch_ms(timestamp)

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """SQL: the local timestamp of an epoch-milliseconds expression."""
        return builders.local_time(milliseconds, timezone)

    def hash60(self, salt: str, unit: str) -> str:
        """SQL: the `md5_60` of a salt and a unit expression."""
        return builders.hash60(salt, unit)

    def close(self) -> None:
        """Drop what was named, put settings back, and stop a session that was started here."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        with suppress(Exception):  # A session that is gone has nothing to give back.
            for name in self._types:
                self._session.catalog.dropTempView(self._prefix + name)
            for name, value in self._before.items():
                if value is None:
                    self._session.conf.unset(name)
                else:
                    self._session.conf.set(name, value)
            if self._own:
                self._session.stop()

    def _query(self, sql: str) -> "DataFrame":
        return self._session.sql(self._text(parsed(sql), is_query(sql)))

    def _text(self, tree: exp.Query, trusted: bool) -> str:
        names = {name.lower(): self._prefix + name for name in self._types}
        return transpiled(tree, "spark", lambda name: list(self._types[name]), names, trusted)

    def _add(self, name: str, frame: "DataFrame", types: Mapping[str, str] | None = None) -> None:
        with _asking():
            frame.createOrReplaceTempView(self._prefix + name)
            self._types[name] = types or self._typed(frame)

    @staticmethod
    def _typed(frame: "DataFrame") -> dict[str, str]:
        return {field.name: duckdb_type(field.dataType.simpleString()) for field in frame.schema}

    def _table_of(self, log: str, table: str) -> "DataFrame":
        known = [found.name for found in self._session.catalog.listTables()]
        try:
            with _asking():
                frame = self._session.table(table)
                frame.schema  # noqa: B018 (Spark Connect looks a table up when it is asked)
        except QueryError as error:
            what = f"{log}: Spark has no table {table!r}{suggestion(table, known)}"
            raise LogError(what, "a view, or CATALOG.SCHEMA.TABLE of the session") from error
        return frame

    def _add_parquet(self, name: str, files: Sequence[str], source: LogSource) -> None:
        """Read where it lies, unless Spark takes a column for something else than DuckDB does."""
        far = any("://" in file for file in files)
        reader = self._session.read.option("mergeSchema", "true")
        if sources.has_partitions(files):
            reader = reader.option("basePath", files[0].partition("=")[0].rpartition("/")[0])
        try:
            with _asking():
                frame = reader.parquet(*files)
                found = self._typed(frame)
        except QueryError as error:
            if far:
                raise LogError(f"{name.removeprefix('raw_')}: {error.what}") from error
            found = {}
        if far:
            self._add(name, frame, found)
            return
        types = types_of(name, source, self._folder)
        if found == {column: _READ_AS.get(kind, kind) for column, kind in types.items()}:
            self._add(name, frame, types)
        else:
            self._stage(name, source)

    def _stage(self, name: str, source: object) -> None:
        """Through DuckDB: to a file that executors on this machine read, else by way of Arrow."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp("-abeval", dir=self._options.temp_directory))
        file = self._scratch / f"{name}_{len(self._types)}.parquet"
        types = staged(name, source, self._folder, file, self._options)
        with _asking():
            if self._here:
                frame = self._session.read.parquet(str(file))
            else:
                import pyarrow.parquet as pq

                frame = self._session.createDataFrame(_signed(pq.read_table(file)))
            self._add(name, frame, types)

    @property
    def _here(self) -> bool:
        """Whether the executors see this machine's files."""
        from pyspark.sql.utils import is_remote

        return not is_remote() and str(self._session.conf.get("spark.master", "")).startswith(
            "local"
        )


_READ_AS = {
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INTEGER",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
}
"""Types that Spark has no name for, and what it reads them as."""

_NAMES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BLOB",
    "void": '"NULL"',
}


def duckdb_type(kind: str) -> str:
    """What DuckDB calls a type of Spark.

    Example:
        >>> duckdb_type("timestamp_ntz"), duckdb_type("decimal(20,0)")
        ('TIMESTAMP', 'DECIMAL(20,0)')
    """
    if kind.startswith(("char(", "varchar(")):
        return "VARCHAR"
    return _NAMES.get(kind, kind.upper())


def _numbers_rows(tree: exp.Query) -> bool:
    return any(
        isinstance(window.this, exp.RowNumber) and not window.args.get("order")
        for window in tree.find_all(exp.Window)
    )


def _signed(table: "pa.Table") -> "pa.Table":
    """Unsigned columns as what Spark reads them as from Parquet; from Arrow it takes none."""
    import pyarrow as pa

    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
    }
    types = [field.with_type(wider.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(types))


def _cells(column: "pa.ChunkedArray") -> list[Cell]:
    """Python values, whole decimals as the integers that they are."""
    import pyarrow as pa

    values: list[Cell] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def _with_numbers(table: "pa.Table") -> "pa.Table":
    """Decimals, which large ids and sums of whole numbers are, as numbers that pandas has."""
    for place, column in enumerate(table.columns):
        table = table.set_column(place, table.schema[place].name, _number(column))
    return table


def _number(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """An id must not be rounded: a double is the last that is tried."""
    import pyarrow as pa

    if not pa.types.is_decimal(column.type):
        return column
    for kind in (pa.int64(), pa.uint64()) if column.type.scale == 0 else ():
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column.cast(pa.float64())


@contextmanager
def _asking() -> Iterator[None]:
    """Whatever goes wrong here is a fault of a query, or of the cluster."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise QueryError(f"Spark could not run a query: {_message(error)}") from error


def _message(error: Exception) -> str:
    """What Spark says, without the trace of the machine that said it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("[") or ": [" in line] or lines
    text = told[0] if told else type(error).__name__
    return text[text.index("[") :] if "[" in text else text
