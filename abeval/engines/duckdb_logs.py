"""Logs as relations of DuckDB: files, tables and frames under a name, times as times.

`duckdb.py` hands it what `add_log` and `add_frame` are given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from abeval.engines import sources, text_files
from abeval.engines.duckdb_connection import log_errors
from abeval.engines.sql import literal, quoted
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
from abeval.files import real

if TYPE_CHECKING:
    from abeval.experiment.sources import LogSource


class AdbcTable(NamedTuple):
    """A table of a database.

    Attributes:
        connection: An ADBC connection, as `adbc_driver_sqlite.dbapi.connect` gives.
        name: As SQL of the database names it.
    """

    connection: Any
    name: str

    def rows(self, condition: str = "") -> "Stream":
        """A stream of its rows; of all columns, because databases quote names differently."""
        cursor = self.connection.cursor()
        cursor.execute(f"select * from {self.name} {condition}")
        return Stream(cursor.fetch_record_batch(), cursor.close)


class Stream:
    """The Arrow stream of a frame, and nothing else, so that DuckDB needs no other package.

    Args:
        frame: Has the stream.
        close: Called when it has been read.
    """

    def __init__(self, frame: Any, close: Callable[[], object] | None = None) -> None:  # noqa: ANN401
        self._frame = frame
        self.close = close or (lambda: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def table_of(connection: Any, name: str) -> object:  # noqa: ANN401
    """A table of an open connection, as a frame.

    Args:
        connection: Of DuckDB, or of an ADBC driver.
        name: The table, as SQL names it.

    Raises:
        LogError: There is no such table, or the connection is of another kind.
    """
    if isinstance(connection, duckdb.DuckDBPyConnection):
        with log_errors(f"table {name!r} cannot be read", "name a table or view of the connection"):
            return connection.table(name)
    if hasattr(connection, "adbc_get_table_schema"):
        return AdbcTable(connection, name)
    raise LogError(
        f"connection: {type(connection).__name__} is neither of DuckDB nor of ADBC",
        "give one of these, or the table's rows as a frame",
    )


def described(frame: Any) -> object:  # noqa: ANN401
    """What DuckDB can describe in place of a frame: some of its rows, or none.

    None for a frame that can be read only once, and as a whole.
    """
    match _kind(frame):
        case "pandas.DataFrame":
            return frame.head(_LOOKED_AT).copy()
        case "polars.DataFrame" | "pyarrow.Table":
            return Stream(frame.slice(0, 0))
        case "polars.LazyFrame":
            return Stream(frame.limit(0).collect())
        case "ibis.Table":
            return Stream(_of_ibis(frame.limit(0)))
        case "duckdb.DuckDBPyRelation":
            return Stream(frame.limit(0))
        case "abeval.AdbcTable":
            return frame.rows("where 1 = 0")
    return None


_LOOKED_AT = 1000
"""Rows that tell the types of a pandas frame's objects."""


def scanned(frame: Any, columns: Mapping[str, int] | None, log: str) -> object:  # noqa: ANN401
    """What DuckDB can scan in place of a frame, once.

    Args:
        frame: pandas, Polars, Arrow or Ibis, a DuckDB relation, or a table of ADBC.
        columns: The columns that are read, each with its place among all; None for all of them.
        log: The log's name, for messages.

    Raises:
        LogError: It is no frame.
    """
    match _kind(frame):
        case "pandas.DataFrame":
            # A copy, because DuckDB cannot read the strided columns of a reversed or sliced frame.
            return (frame if columns is None else frame.iloc[:, [*columns.values()]]).copy()
        case "polars.LazyFrame":
            return Stream((frame if columns is None else frame.select(*columns)).collect())
        case "ibis.Table":
            return Stream(_of_ibis(frame if columns is None else frame.select(*columns)))
        case "abeval.AdbcTable":
            return frame.rows()
        case "duckdb.DuckDBPyRelation" if columns is not None:
            return Stream(frame.project(", ".join(map(quoted, columns))))
        case "polars.DataFrame" | "pyarrow.Table" if columns is not None:
            return Stream(frame.select([*columns]))
    if not hasattr(frame, "__arrow_c_stream__"):
        raise LogError(
            f"{log}: {type(frame).__name__} is not a frame",
            "give a pandas, Polars, Arrow or Ibis table, or a DuckDB relation",
        )
    return Stream(frame)


def _kind(frame: object) -> str:
    """The library and the class of a frame, by which none of the libraries is imported."""
    kinds = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(frame).mro())
    return next((kind for kind in kinds if kind in _KINDS), "")


_KINDS = (
    "pandas.DataFrame",
    "polars.DataFrame",
    "polars.LazyFrame",
    "pyarrow.Table",
    "ibis.Table",
    "duckdb.DuckDBPyRelation",
    "abeval.AdbcTable",
)


def _of_ibis(table: Any) -> Any:  # noqa: ANN401
    """The rows of an Ibis table as a stream; of DuckDB by its own connection."""
    backend = table.get_backend()
    if backend.name == "duckdb":
        return backend.con.cursor().sql(str(table.compile()))
    return table.to_pyarrow_batches()


_RUNS = count(1)
"""Numbers attached databases, so that runs on one connection do not clash."""


class Tables:
    """Databases whose tables a run reads.

    Args:
        connection: The run's connection. If there is a caller, it switches to a new database.
        caller: The caller's connection, if there is one.
        folder: Where relative paths start.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        caller: duckdb.DuckDBPyConnection | None,
        folder: Path,
    ) -> None:
        self._connection, self._caller, self._folder = connection, caller, folder
        self._attached: list[str] = []
        if caller is not None:
            ((self._home,),) = connection.execute("select current_database()").fetchall()
            connection.execute(f"use {quoted(self._attach(':memory:', ''))}")

    def find(self, log: str, table: str, database: str | None) -> str | duckdb.DuckDBPyRelation:
        """The full name of a table, or its rows if only the caller's connection can see it.

        Raises:
            LogError: There is no such table, or nothing says where it is.
        """
        if database is not None:
            name = self._in_file(database, table)
        elif self._caller is not None:
            with log_errors("the tables of the connection cannot be listed", "is it in use?"):
                if self._is_temporary(self._caller, table):
                    return self._caller.table(quoted(table))
                name = self._of_caller(self._caller, table)
        else:
            raise LogError(
                f"logs.{log}.table names {table!r}, but there is no database or connection for it",
                f"set logs.{log}.database, or pass connection = ... from Python",
            )
        if isinstance(name, str):
            return name
        raise _unknown(log, table, name)

    def close(self) -> None:
        """Detach what was attached, and switch back to the caller's database."""
        if self._caller is not None:
            self._connection.execute(f"use {quoted(self._home)}")
            for alias in reversed(self._attached):
                self._connection.execute(f"detach {quoted(alias)}")

    def _in_file(self, database: str, table: str) -> str | list[str]:
        """The full name of a table of a DuckDB file, or if there is none, the names of all."""
        file = self._folder / database
        if not file.is_file():
            raise LogError(f"no DuckDB database at {file}", "check logs.*.database")
        with log_errors(f"{file} cannot be opened", "is it a DuckDB database of this version?"):
            alias = self._alias_of(file)
        return self._named(table, alias, "main")

    def _of_caller(self, caller: duckdb.DuckDBPyConnection, table: str) -> str | list[str]:
        sql = "select current_database(), current_schema()"
        ((database, schema),) = caller.execute(sql).fetchall()
        return self._named(table, database, schema)

    def _named(self, table: str, database: str, schema: str) -> str | list[str]:
        rows = self._connection.execute(
            "select database_name, schema_name, table_name from duckdb_tables() where not internal "
            "union select database_name, schema_name, view_name from duckdb_views() "
            "where not internal order by all"
        ).fetchall()
        known = {tuple(str(part).lower() for part in row) for row in rows}
        parts = table.split(".")
        for full in ([database, schema, *parts], [database, *parts], parts):
            if tuple(part.lower() for part in full) in known:
                return ".".join(quoted(part) for part in full)
        return [str(name) for place, _, name in rows if place == database]

    @staticmethod
    def _is_temporary(caller: duckdb.DuckDBPyConnection, table: str) -> bool:
        """Whether it is a temporary table or a frame, which other connections cannot see."""
        sql = (
            "select 1 from duckdb_tables() where temporary and table_name = $1 "
            "union all select 1 from duckdb_views() where temporary and view_name = $1"
        )
        return bool(caller.execute(sql, [table]).fetchall())

    def _alias_of(self, file: Path) -> str:
        """The name under which a file is attached; the caller may have attached it already."""
        opened = self._connection.execute("select database_name, path from duckdb_databases()")
        for name, path in opened.fetchall():
            if path is not None and real(str(path)) == real(file):
                return str(name)
        return self._attach(str(file), "(read_only)")

    def _attach(self, path: str, options: str) -> str:
        alias = f"abeval_{next(_RUNS)}"
        self._connection.execute(f"attach {literal(path)} as {quoted(alias)} {options}")
        self._attached.append(alias)
        return alias


def _unknown(log: str, table: str, known: list[str]) -> LogError:
    from abeval.experiment.problems import suggestion

    hint = f"tables and views: {', '.join(known) or 'none'}"
    what = f"logs.{log}: there is no table {table!r}{suggestion(table, known)}"
    return LogError(what, hint if len(known) > 12 else None)


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
        empty = described(frame)
        if empty is None:
            return {}
        with self._registered(empty):
            return column_types(self._rows, _FRAME)

    def _copy(self, name: str, frame: object, columns: Mapping[str, int] | None) -> None:
        listed = "*" if columns is None else ", ".join(map(quoted, columns))
        with self._registered(scanned(frame, columns, sources.log_name(name))):
            self._rows(f"create or replace table {quoted(name)} as select {listed} from {_FRAME}")

    @contextmanager
    def _registered(self, rows: object) -> Iterator[None]:
        self._connection.register(_FRAME, rows)
        try:
            yield
        finally:
            self._connection.unregister(_FRAME)
            if isinstance(rows, Stream):
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
