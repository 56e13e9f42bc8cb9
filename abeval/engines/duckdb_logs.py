"""Logs as relations of DuckDB: files, tables and frames under a name, times as times.

`duckdb.py` hands it what `add_log` and `add_frame` are given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from abeval.engines import duckdb_logs, sources, text_files
from abeval.engines.duckdb_connection import log_errors
from abeval.engines.sql import quoted
from abeval.engines.text_files import (
    Reader,
    Rows,
    Time,
    column_types,
    read_columns,
    time_column,
    time_of_text,
)
from abeval.errors import LogError

if TYPE_CHECKING:
    from abeval.experiment.sources import LogSource


_FRAME = "abeval_frame"
"""The relation of a frame while it is copied."""


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
        self._reader = Reader(rows, cache(partial(column_types, rows)), self._keep)
        self._left_out: dict[str, tuple[Mapping[str, str], Callable[[], None]]] = {}

    def add(self, name: str, source: "LogSource", reads: str | None = None) -> None:
        """Make files or a table readable as the relation `name`.

        Of CSV files, only the columns that are named in `reads` are kept, if that is given.
        """
        self._left_out.pop(name, None)
        self._check_remote(sources.log_name(name), source.paths)
        if source.table is None:
            self._add_files(name, source, reads)
            return
        table = self._tables.find(sources.log_name(name), source.table, source.database)
        if isinstance(table, str):
            what = f"{source.table} cannot be read as the log {sources.log_name(name)}"
            with log_errors(what, "a view of a database may read its own tables, and no file"):
                self._view_rows(name, f"select * from {table}", source)
        else:
            self.add_frame(name, table, source, reads)

    def add_frame(
        self, name: str, frame: object, source: "LogSource | None", reads: str | None = None
    ) -> None:
        """Copy a frame into the relation `name`.

        Args:
            name: The relation.
            frame: The frame.
            source: The log's entry in the experiment file, where the frame is a log.
            reads: Text that names the columns of a log to be copied; None for all.
        """
        self._left_out.pop(name, None)
        hint = "each column needs one type and a unique name"
        with log_errors(f"{sources.log_name(name)}: the frame cannot be read", hint):
            if source is None:
                self._copy(name, frame, None)
                return
            if self._take_over(name, frame, reads is None):
                types = self._left_out.pop(name, ({}, None))[0]
            else:
                types = {} if reads is None else self._types_of(frame)
                columns = read_columns(name, source, types, reads)
                self._copy(name, frame, {c: i for i, c in enumerate(types) if c in columns} or None)
                self._spare.keep(name, frame)
        self._leave_out(name, types, partial(self.add_frame, name, frame, source))
        self._type_time(name, source)

    def _types_of(self, frame: object) -> Mapping[str, str]:
        """The columns of a frame; none of one that can be read only once."""
        empty = duckdb_logs.described(frame)
        if empty is None:
            return {}
        with self._registered(empty):
            return column_types(self._rows, _FRAME)

    def _copy(self, name: str, frame: object, columns: Mapping[str, int] | None) -> None:
        listed = "*" if columns is None else ", ".join(map(quoted, columns))
        with self._registered(duckdb_logs.scanned(frame, columns, sources.log_name(name))):
            self._rows(f"create or replace table {quoted(name)} as select {listed} from {_FRAME}")

    @contextmanager
    def _registered(self, rows: object) -> Iterator[None]:
        self._connection.register(_FRAME, rows)
        try:
            yield
        finally:
            self._connection.unregister(_FRAME)
            if isinstance(rows, duckdb_logs.Stream):
                rows.close()

    def _leave_out(self, name: str, types: Mapping[str, str], load: Callable[[], None]) -> None:
        """Note that a relation has not all columns, and what reads them all."""
        if types and len(column_types(self._rows, quoted(name))) < len(types):
            self._left_out[name] = types, load

    def columns(self, name: str) -> dict[str, str]:
        """Column names and types of a relation, in order; of a log, also those left out."""
        types = column_types(self._rows, quoted(name))
        return {**self._left_out[name][0], **types} if name in self._left_out else types

    def complete(self, name: str) -> None:
        """Read a log once more with every column, where some were left out."""
        if name in self._left_out:
            self._left_out[name][1]()

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

    def _add_files(self, name: str, source: "LogSource", reads: str | None) -> None:
        """Make files readable as the relation `name`: Parquet as a view, text as a table."""
        log = sources.log_name(name)
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
            if files.kind == "csv":
                types = text_files.load_csv(name, files, source, self._reader, reads)
                sources.check_split(log, list(types), files.read)
                self._leave_out(name, types, partial(self.add, name, source))
            else:
                text_files.load_json(name, files, source, self._reader)
        self._type_time(name, source)

    def _keep(self, name: str, read: str, select: str) -> Mapping[str, str]:
        """Keep columns of files as a table; those of a spare table are enough for its next log."""
        if not self._take_over(name, read, is_whole=False):
            self._rows(f"create or replace table {quoted(name)} as {select} from {read}")
            self._spare.keep(name, read)
        return column_types(self._rows, quoted(name))

    def _take_over(self, name: str, rows: object, is_whole: bool) -> bool:
        """Whether there is a spare table of these rows, which has this name from now on.

        Args:
            name: The relation.
            rows: What they are made of.
            is_whole: Whether every column is needed.
        """
        spare = self._spare.take(rows)
        if spare is None or (is_whole and spare in self._left_out):
            return False
        self._rows(f"drop table if exists {quoted(name)}")
        self._rows(f"alter table {quoted(spare)} rename to {quoted(name)}")
        if spare in self._left_out:
            self._left_out[name] = self._left_out.pop(spare)
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
        log = sources.log_name(name)
        column = time_column(log, source, column_types(self._rows, quoted(name)))
        if column is None:
            return None
        return column, time_of_text(log, name, column, source, self._rows)


class SpareTables:
    """What the tables of an engine were made of, and which of them are left over.

    Example:
        >>> tables = SpareTables()
        >>> tables.keep("looked_at", "from 'units.csv'")
        >>> tables.leave("looked_at")
        >>> tables.take("from 'other.csv'"), tables.take("from 'units.csv'")
        (None, 'looked_at')
        >>> tables.take("from 'units.csv'") is None
        True
    """

    def __init__(self) -> None:
        self._rows: dict[str, object] = {}
        self._left: list[str] = []

    def keep(self, name: str, rows: object) -> None:
        """A table was made of rows: of the SQL that reads files, or of a frame."""
        self._rows[name] = rows

    def leave(self, name: str) -> None:
        """A table is read no more."""
        if name in self._rows:
            self._left.append(name)

    def take(self, rows: object) -> str | None:
        """The left table of these rows, which is left no more; None where there is none."""
        for name in self._left:
            kept = self._rows[name]
            # Frames of equal values may be of other types: only itself is the same.
            if kept is rows or (isinstance(kept, str) and kept == rows):
                self._left.remove(name)
                del self._rows[name]
                return name
        return None
