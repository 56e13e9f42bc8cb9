"""Logs as relations of DuckDB: files, tables and frames under a name, times as times.

`duckdb.py` hands it what `add_log` and `add_frame` are given.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from abeval.engines import sources, text_files
from abeval.engines.duckdb_errors import log_errors
from abeval.engines.names import log_name
from abeval.engines.spare import SpareTables
from abeval.engines.sql import quoted
from abeval.engines.tables import Tables
from abeval.engines.text_files import Rows, column_types
from abeval.engines.text_times import Time, time_column, time_of_text
from abeval.errors import LogError

if TYPE_CHECKING:
    from abeval.experiment.sources import LogSource


class Logs:
    """Makes the relations of logs.

    Args:
        connection: The run's connection.
        rows: Runs SQL on it, and fetches the rows.
        tables: The tables that logs may name.
        folder: Where relative paths of logs start.
        reads_remote: Whether DuckDB may read addresses.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: Rows,
        tables: Tables,
        folder: Path,
        reads_remote: bool,
    ) -> None:
        self._connection, self._rows, self._tables = connection, rows, tables
        self._folder, self._reads_remote = folder, reads_remote
        self._spare = SpareTables()

    def add(self, name: str, source: "LogSource") -> None:
        """Make files or a table readable as the relation `name`."""
        self._check_remote(log_name(name), source.paths)
        if source.table is None:
            self._add_files(name, source)
            return
        table = self._tables.find(log_name(name), source.table, source.database)
        if isinstance(table, str):
            what = f"{source.table} cannot be read as the log {log_name(name)}"
            with log_errors(what, "a view of a database may read its own tables, and no file"):
                self._view_rows(name, f"select * from {table}", source)
        else:
            self.add_frame(name, table, source)

    def add_frame(self, name: str, frame: object, source: "LogSource | None") -> None:
        """Copy a frame into the relation `name`.

        Args:
            name: The relation.
            frame: The frame.
            source: The log's entry in the experiment file, where the frame is a log.
        """
        if source is None:
            self._copy(name, frame)
            return
        if not self._take_over(name, frame):
            self._copy(name, frame)
            self._spare.keep(name, frame)
        self._type_time(name, source)

    def _copy(self, name: str, frame: object) -> None:
        # A copy, because DuckDB cannot read the strided columns of a reversed or sliced frame.
        packed = _packed(frame)
        stream = _ArrowStream(frame, log_name(name)) if packed is None else packed
        hint = "each column needs one type and a unique name"
        with log_errors(f"{log_name(name)}: the frame cannot be read", hint):
            self._connection.register("abeval_frame", stream)
            self._rows(f"create or replace table {quoted(name)} as select * from abeval_frame")
            self._connection.unregister("abeval_frame")

    def spare(self, name: str) -> None:
        """Leave a relation that is read no more to the next log of the same rows."""
        self._spare.leave(name)

    def _check_remote(self, log: str, paths: Sequence[str]) -> None:
        """Refuse addresses where nothing says that DuckDB may fetch an extension to read them."""
        remote = next((path for path in paths if "://" in path), None)
        if remote is not None and not self._reads_remote:
            raise LogError(
                f"{log} is at an address: {remote}",
                "set [engine] remote_files = true, or --remote-files: DuckDB then downloads and "
                "loads its extension to read it; or copy the files to this machine",
            )

    def _add_files(self, name: str, source: "LogSource") -> None:
        """Make files readable as the relation `name`: Parquet as a view, text as a table."""
        log = log_name(name)
        files = sources.files_of(log, source.paths, self._folder, source.format)
        hint = (
            "check that the file is complete and has the format of its name; otherwise set `format`"
        )
        with log_errors(f"{log} cannot be read from {', '.join(source.paths)}", hint):
            if files.kind == "parquet":
                self._view_rows(name, f"from {text_files.parquet_relation(files, source)}", source)
                # One row of each column is read, to refuse damaged files here. Its values are not
                # fetched: Python may lack what some types need, such as pytz for times with a zone.
                self._rows(f"select columns(*) is null from {quoted(name)} limit 1")
                return
            load = text_files.load_csv if files.kind == "csv" else text_files.load_json
            load(name, files, source, self._rows, self._keep)
        if files.kind == "csv":
            sources.check_split(log, list(column_types(self._rows, quoted(name))), files.read)
        self._type_time(name, source)

    def _keep(self, name: str, sql: str) -> None:
        """Keep the rows of files as a table."""
        if not self._take_over(name, sql):
            self._rows(f"create or replace table {quoted(name)} as {sql}")
            self._spare.keep(name, sql)

    def _take_over(self, name: str, rows: object) -> bool:
        """Whether there is a spare table of these rows, which has this name from now on."""
        spare = self._spare.take(rows)
        if spare is None:
            return False
        self._rows(f"drop table if exists {quoted(name)}")
        self._rows(f"alter table {quoted(spare)} rename to {quoted(name)}")
        self._spare.keep(name, rows)
        return True

    def _view_rows(self, name: str, sql: str, source: "LogSource") -> None:
        """Show the rows of a log as they are stored, with its time as a time."""
        self._rows(f"create or replace view {quoted(name)} as {sql}")
        time = self._text_time(name, source)
        if time is not None:
            column, read = time
            replaced = f"select * replace ({read.sql} as {quoted(column)}) from ({sql})"
            self._rows(f"create or replace view {quoted(name)} as {replaced}")

    def _type_time(self, name: str, source: "LogSource") -> None:
        """Make times of the texts in a table."""
        time = self._text_time(name, source)
        if time is not None:
            column, read = time
            changed = f"alter {quoted(column)} set data type {read.kind} using {read.sql}"
            self._rows(f"alter table {quoted(name)} {changed}")

    def _text_time(self, name: str, source: "LogSource") -> tuple[str, Time] | None:
        """The column of the time and how it is read; None where it is no text."""
        log = log_name(name)
        column = time_column(log, source, column_types(self._rows, quoted(name)))
        if column is None:
            return None
        return column, time_of_text(log, name, column, source, self._rows)


def _packed(frame: object) -> object | None:
    """A copy of a pandas frame, None for any other; without pandas imported it cannot be one."""
    pandas = sys.modules.get("pandas")
    return frame.copy() if pandas is not None and isinstance(frame, pandas.DataFrame) else None


class _ArrowStream:
    """The Arrow stream of a frame, and nothing else, so that DuckDB needs no other package."""

    def __init__(self, frame: object, name: str) -> None:
        if not hasattr(frame, "__arrow_c_stream__"):
            raise LogError(
                f"{name}: {type(frame).__name__} is not a frame",
                "give a pandas, Polars or Arrow table, or a DuckDB relation",
            )
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)
