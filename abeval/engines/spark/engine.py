"""Run the same queries on Apache Spark, beyond one machine.

CSV and JSON files have no types, and frames have types that Spark does not know: DuckDB reads these
and writes Parquet for Spark. With one reader, a column is the same on both engines.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from abeval.engines import lakes, sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.spark.session import (
    TABLE,
    open_session,
    query_errors,
    read_arrays,
    read_frame,
    read_rows,
)
from abeval.engines.sql import Cell, Engine, is_query, literal, quote
from abeval.engines.statement import parse_query, transpile
from abeval.errors import LogError, QueryError
from abeval.experiment.problems import suggest_name
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource, Span
from abeval.scratch import Scratch

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession


def _write_column(column: str, kind: str) -> str:
    every = {**TABLE["written_as"], **TABLE["read_as"]}.items()
    to = next((t for pattern, t in every if re.fullmatch(pattern, kind, re.DOTALL)), None)
    name = quote(column)
    return name if to is None else f"cast({name} as {to}) as {name}"


_RUNS = count(1)
"""Counter of runs, whose views have a prefix of their own in the session."""


class SparkEngine(Engine):
    """Run queries on a Spark session; only their results come back.

    Views are temporary views. Tables are computed once and checkpointed on Spark's executors, so
    that a plan does not grow with the analysis and nothing is computed twice.
    Logs may name tables and views of the caller's own `session`, whose settings are changed while
    the engine is open; `close` restores them.
    """

    in_process = False

    def __init__(
        self,
        options: EngineOptions | None = None,
        folder: Path = Path(),
        session: "SparkSession | None" = None,
    ) -> None:
        self._folder = folder
        self._options = options or EngineOptions()
        opened = open_session(self._options) if session is None else (session, False)
        self._session, self._own = opened
        # The session is the user's: names must not clash with theirs.
        self._prefix = f"abeval_{next(_RUNS)}_"
        self._types: dict[str, Mapping[str, str]] = {}
        self._blank_rows: dict[str, int] = {}
        self._spans: dict[str, Span | None] = {}
        self._scratch: Scratch | None = None
        with query_errors():
            # Kept to be restored when the engine closes.
            self._before = {name: self._session.conf.get(name, None) for name in TABLE["settings"]}
            for name, value in TABLE["settings"].items():
                self._session.conf.set(name, value)

    def add_log(self, name: str, source: LogSource, reads: str | None = None) -> None:
        """Make files or a table readable as the relation `name`, with every column."""
        log = sources.log_name(name)
        if source.table is not None and not source.paths:
            self._add(name, self._open_table(log, source.table))
            return
        files = sources.find_files(log, source, self._folder)
        # Spark takes names for globs, and has no list of names without them.
        are_plain = all(map(_is_plain, files.read)) and not files.variants
        if files.kind == "parquet" and are_plain:
            self._add_parquet(name, files.read, source)
        else:
            self._stage_log(name, source)

    def add_frame(
        self, name: str, frame: object, source: LogSource | None = None, reads: str | None = None
    ) -> None:
        """Make a frame (Spark's own, pandas, Polars, Arrow) the relation `name`.

        `source` is the log's entry in the experiment file, where the frame is a log.
        """
        from pyspark.sql import DataFrame

        if isinstance(frame, DataFrame):
            self._add(name, frame)
        else:
            self._stage_log(name, source, frame)

    def blank_rows(self, name: str) -> int:
        """Count rows of a log that were not read, since no column has a value."""
        return self._blank_rows.get(name, 0)

    def read_span(self, name: str) -> Span | None:
        """Return the span outside of which rows of a log were not read; None if all were."""
        return self._spans.get(name)

    def columns(self, relation: str) -> Mapping[str, str]:
        """List column names and types of a relation, in order, by DuckDB's names."""
        return self._types[relation]

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        tree = parse_query(sql)
        if any(
            isinstance(window.this, exp.RowNumber) and not window.args.get("order")
            for window in tree.find_all(exp.Window)
        ):
            # A view would number its rows in another order on each read.
            self.table(name, sql)
            return
        with query_errors():
            # A view of a frame keeps its plan; one of a text would be parsed at each read.
            self._add(name, self._session.sql(self._translate_query(tree, is_query(sql))))

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        with query_errors():
            self._add(name, self._query(sql).localCheckpoint(eager=True))

    def drop(self, *names: str) -> None:
        """Drop relations; Spark frees the rows that nothing else reads."""
        for name in names:
            self._session.catalog.dropTempView(self._prefix + name)
            self._types.pop(name, None)

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        with query_errors():
            return read_rows(self._query(sql).toArrow())

    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""
        with query_errors():
            return read_frame(self._query(sql).toArrow())

    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""
        with query_errors():
            return read_arrays(self._query(sql).toArrow())

    def add_arrays(self, name: str, columns: "Mapping[str, NDArray[np.generic]]") -> None:
        """Make arrays of one length the columns of the relation `name`."""
        import pyarrow as pa

        with query_errors():
            self._add(name, self._session.createDataFrame(pa.table(dict(columns))))

    def hash64(self, values: Sequence[str]) -> str:
        """Write a whole number of 64 bits that stands for values, nulls among them."""
        # Spark passes nulls over; and it hashes on from each value to the next, so that a constant
        # comes first: hashes of values that collide must differ with it.
        parts = (f"{value} is null, {value}" for value in reversed(values))
        return f"(xxhash64({', '.join(parts)}) & {2**63 - 1})"

    def close(self) -> None:
        """Drop views, restore settings, and stop a session that was started here."""
        if self._scratch is not None:
            self._scratch.close()
        with suppress(Exception):  # A session that has ended needs no cleaning up.
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
        return self._session.sql(self._translate_query(parse_query(sql), is_query(sql)))

    def _translate_query(self, tree: exp.Query, trusted: bool) -> str:
        names = {name.lower(): self._prefix + name for name in self._types}
        return transpile(tree, "spark", lambda name: list(self._types[name]), names, trusted)

    def _add(self, name: str, frame: "DataFrame", types: Mapping[str, str] | None = None) -> None:
        with query_errors():
            frame.createOrReplaceTempView(self._prefix + name)
            self._types[name] = types or self._find_types(frame)

    @staticmethod
    def _find_types(frame: "DataFrame") -> dict[str, str]:
        return {
            field.name: _name_duckdb_type(field.dataType.simpleString()) for field in frame.schema
        }

    def _open_table(self, log: str, table: str) -> "DataFrame":
        tables = [row["tableName"] for row in self._session.sql("show tables").collect()]
        try:
            with query_errors():
                frame = self._session.table(table)
                frame.schema  # noqa: B018 (Spark Connect looks a table up only when its schema is read)
        except QueryError as error:
            what = f"{log}: Spark has no table {table!r}{suggest_name(table, tables)}"
            raise LogError(what, "a view, or CATALOG.SCHEMA.TABLE of the session") from error
        return frame

    def _add_parquet(self, name: str, files: Sequence[str], source: LogSource) -> None:
        """Let Spark read Parquet files, unless it reads a type differently."""
        far = any("://" in file for file in files)
        reader = self._session.read.option("mergeSchema", "true")
        if sources.find_partition_columns(files):
            reader = reader.option("basePath", files[0].partition("=")[0].rpartition("/")[0])
        try:
            with query_errors():
                frame = reader.parquet(*files)
                read_as = self._find_types(frame)
        except QueryError as error:
            if far:
                raise LogError(f"{sources.log_name(name)}: {error.what}") from error
            read_as = {}
        if limit := sources.find_span(source, sources.Files("parquet", files), read_as):
            column, self._spans[name] = limit
            named = exp.to_identifier(column, quoted=True).sql("spark")
            frame = frame.where(lakes.write_span(named, limit[1]))
        if far:
            self._add(name, frame, read_as)
            return
        types = self._read_by_duckdb(name, source)
        if read_as == {column: TABLE["read_as"].get(kind, kind) for column, kind in types.items()}:
            self._add(name, frame, types)
        else:
            self._stage_log(name, source)

    def _stage_log(self, name: str, source: LogSource | None, frame: object = None) -> None:
        """Read a log with DuckDB, and pass it on as a file or as Arrow."""
        if self._scratch is None:
            self._scratch = Scratch(self._options.temp_directory, "abeval-spark-")
        file = self._scratch.path / f"{name}_{len(self._types)}.parquet"
        types = self._read_by_duckdb(name, source, frame, file)
        with query_errors():
            # Executors elsewhere cannot open a file of this machine.
            if self._is_local:
                frame = self._session.read.parquet(str(file))
            else:
                import pyarrow.parquet as pq

                frame = self._session.createDataFrame(pq.read_table(file))
            self._add(name, frame, types)

    def _read_by_duckdb(
        self, name: str, source: LogSource | None, frame: object = None, file: Path | None = None
    ) -> Mapping[str, str]:
        """Find DuckDB's types of a log or a frame, and write its rows to a file."""
        with closing(DuckDBEngine(self._options, self._folder)) as engine:
            folders = [] if file is None else [str(file.parent)]
            if source is None or frame is not None:
                engine.confine([], folders)
                engine.add_frame(name, frame, source)
            else:
                engine.confine([source], folders)
                engine.add_log(name, source)
            types, self._blank_rows[name] = engine.columns(name), engine.blank_rows(name)
            # What DuckDB reads is what is passed on, unless Spark reads the same types itself.
            self._spans[name] = engine.read_span(name)
            if file is not None:
                columns = ", ".join(_write_column(column, kind) for column, kind in types.items())
                copied = f"copy (select {columns} from {quote(name)}) to {literal(str(file))}"
                engine.rows(f"{copied} (format parquet)")
        return types

    @property
    def _is_local(self) -> bool:
        """Tell whether the executors can read this machine's files."""
        from pyspark.sql.utils import is_remote

        master = str(self._session.conf.get("spark.master", ""))
        return not is_remote() and master.startswith("local")


def _name_duckdb_type(kind: str) -> str:
    """Return DuckDB's name for a type of Spark.

    Example:
        >>> _name_duckdb_type("timestamp_ntz"), _name_duckdb_type("decimal(20,0)")
        ('TIMESTAMP', 'DECIMAL(20,0)')
    """
    if kind.startswith(("char(", "varchar(")):
        return "VARCHAR"
    return TABLE["names"].get(kind, kind.upper())


def _is_plain(file: str) -> bool:
    """Tell whether a name has none of Spark's globs."""
    return "://" in file or not set(file) & set("*?[]{}\\")
