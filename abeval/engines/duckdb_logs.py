"""Load logs into DuckDB as relations: frames, tables and files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np

from abeval.engines import lakes, sources, text_files
from abeval.engines.copies import Copies, check_bytes, check_utf8, list_sqlite_tables
from abeval.engines.duckdb_connection import log_errors, query_errors
from abeval.engines.frames import find_types
from abeval.engines.sources import Files, choose
from abeval.engines.sql import literal, quote
from abeval.engines.text_files import Types, find_text_time
from abeval.errors import AbevalError, LogError
from abeval.experiment.sources import LogSource, Span
from abeval.files import resolve_path

if TYPE_CHECKING:
    import pandas as pd


class AdbcTable(NamedTuple):
    """Name a table of an ADBC connection in SQL, with a condition on its rows."""

    connection: Any
    name: str
    condition: str = ""

    def rows(self) -> "Stream":
        """Stream the rows, with all columns."""
        cursor = self.connection.cursor()
        # Databases quote names of columns differently, so all are read.
        cursor.execute(f"select * from {self.name} {self.condition}")
        return Stream(cursor.fetch_record_batch(), cursor.close)


class Stream:
    """Wrap only the Arrow stream of a frame; `close` ends it."""

    def __init__(self, frame: Any, close: Callable[[], object] | None = None) -> None:  # noqa: ANN401
        # Given the frame itself, DuckDB would need the package that it comes from.
        self._frame = frame
        self.close = close or (lambda: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def find_table(connection: Any, name: str) -> object:  # noqa: ANN401
    """Find a table of an open DuckDB or ADBC connection, as a frame."""
    if isinstance(connection, duckdb.DuckDBPyConnection):
        with log_errors(f"table {name!r} cannot be read", "name a table or view of the connection"):
            return connection.table(name)
    if hasattr(connection, "adbc_get_table_schema"):
        return AdbcTable(connection, name)
    raise LogError(
        f"connection: {type(connection).__name__} is neither of DuckDB nor of ADBC",
        "give one of these, or the table's rows as a frame",
    )


class _Kind(NamedTuple):
    """Define how DuckDB reads a kind of frame, computing only what is read.

    `empty` keeps some rows where these tell the types of objects; `chosen` gets columns with their
    indices among all; `_make_scannable` makes what DuckDB can scan once. `is_counted` says that
    its length is known; others would be computed to count them.
    """

    empty: Callable[[Any], Any]
    chosen: Callable[[Any, Mapping[str, int]], Any]
    scanned: Callable[[Any], object]
    is_counted: bool = False


def _stream_ibis(table: Any) -> Stream:  # noqa: ANN401
    """Stream the rows of an Ibis table; of DuckDB by its own connection."""
    backend = table.get_backend()
    if backend.name == "duckdb":
        return Stream(backend.con.cursor().sql(str(table.compile())))
    return Stream(table.to_pyarrow_batches())


def _stream_polars(frame: Any) -> Stream:  # noqa: ANN401
    """Stream a Polars frame; DuckDB cannot read its columns without a type."""
    return Stream(frame.cast({c: str for c, kind in frame.schema.items() if str(kind) == "Null"}))


def _has_plain_columns(frame: Any) -> bool:  # noqa: ANN401
    """Tell whether all columns of a pandas frame are contiguous arrays of numbers.

    DuckDB cannot read the strided columns of a reversed or sliced frame.
    """
    return all(
        isinstance(kind, np.dtype)
        and kind.kind in "biuf"
        and frame.iloc[:, i].to_numpy().flags.c_contiguous
        for i, kind in enumerate(frame.dtypes)
    )


class LakeRows:
    """Hold the rows of a data lake's table; each read of them scans anew."""

    def __init__(self, table: Any, **chosen: object) -> None:  # noqa: ANN401
        self.table, self.chosen = table, chosen
        self.scan = partial(table.scan, **chosen)

    def select(self, columns: Iterable[str]) -> "LakeRows":
        """Choose columns."""
        is_iceberg = hasattr(self.table, "snapshots")
        names = {"selected_fields": (*columns,)} if is_iceberg else {"columns": [*columns]}
        return LakeRows(self.table, **self.chosen, **names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        scan = self.scan()
        rows = scan.to_arrow_batch_reader() if hasattr(scan, "to_arrow_batch_reader") else scan
        return rows.__arrow_c_stream__(requested_schema)


_IN_MEMORY = _Kind(
    lambda f: f.slice(0, 0), lambda f, columns: f.select([*columns]), Stream, is_counted=True
)
_LAKE = _Kind(LakeRows, lambda f, columns: LakeRows(f).select(columns), LakeRows)
_LAZY = partial(_Kind, lambda f: f.limit(0), lambda f, columns: f.select(*columns))
_KINDS = {
    "pandas.DataFrame": _Kind(
        lambda f: f.head(1000),
        lambda f, columns: f.iloc[:, [*columns.values()]],
        lambda f: f if _has_plain_columns(f) else f.copy(),
        is_counted=True,
    ),
    "polars.DataFrame": _IN_MEMORY._replace(scanned=_stream_polars),
    "pyarrow.Table": _IN_MEMORY,
    "polars.LazyFrame": _LAZY(lambda f: _stream_polars(f.collect())),
    "ibis.Table": _LAZY(_stream_ibis),
    "duckdb.DuckDBPyRelation": _Kind(
        lambda f: f.limit(0),
        lambda f, columns: f.project(", ".join(map(quote, columns))),
        Stream,
    ),
    "deltalake.DeltaTable": _LAKE,
    "pyiceberg.Table": _LAKE,
    "abeval.LakeRows": _Kind(lambda f: f, LakeRows.select, lambda f: f),
    "abeval.AdbcTable": _Kind(
        lambda f: f._replace(condition="where 1 = 0"), lambda f, _: f, AdbcTable.rows
    ),
}
"""Library and class of a frame → how it is read, without importing the library."""


def _find_frame_kind(frame: object) -> _Kind | None:
    kinds = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(frame).mro())
    return next((_KINDS[kind] for kind in kinds if kind in _KINDS), None)


_FEW_ROWS = 1_000_000


def _is_small(frame: Any) -> bool:  # noqa: ANN401 (any frame)
    """Tell whether a frame is known to have few rows."""
    kind = _find_frame_kind(frame)
    return kind is not None and kind.is_counted and len(frame) < _FEW_ROWS


RENAME = (
    "rename the columns; in pandas: frame.columns = ['_'.join(map(str, c)).strip('_') if "
    "isinstance(c, tuple) else str(c) for c in frame.columns]"
)
"""Hint how names of columns become text."""


@contextmanager
def _translate_frame_errors(log: str, frame: Any, hint: str) -> Iterator[None]:  # noqa: ANN401 (any frame)
    """Raise what the library of a frame raises as the error of a log."""
    try:
        yield
    except (AbevalError, MemoryError):
        raise
    except duckdb.Error as error:
        types = frame.dtypes.items() if hasattr(getattr(frame, "dtypes", None), "items") else ()
        for name, kind in types:
            if f"'{kind}'" in str(error):
                what = f"{log}: column {name!r} of the frame is {str(kind).partition('[')[0]}"
                raise LogError(f"{what}, which no log has", hint) from error
        raise
    except Exception as error:
        why = [*str(error).splitlines(), ""][0][:200]
        compute = "compute it first, and pass its rows as pandas, Polars or Arrow"
        raise LogError(f"{log}: the frame cannot be read: {why}", compute) from error


def _check_names(frame: Any, log: str) -> None:  # noqa: ANN401 (any frame)
    """Raise if a frame has two columns of one name, or names that are no text."""
    has_schema = hasattr(frame, "collect_schema")
    names = frame.collect_schema().names() if has_schema else getattr(frame, "columns", ())
    seen = dict[str, str]()
    names = [*getattr(frame, "column_names", names)]
    compound_name = next((name for name in names if isinstance(name, tuple)), None)
    if compound_name is not None:
        raise LogError(f"{log}: the name of a column is {compound_name!r}, and no text", RENAME)
    if not names and hasattr(frame, "columns"):
        raise LogError(f"{log}: the frame has no columns", "give one with a name for each column")
    # DuckDB ignores case, and would give the second of two columns another name.
    for name in map(str, names):
        if name.lower() in seen:
            what = f"{log}: columns {seen[name.lower()]!r} and {name!r} have one name"
            raise LogError(what, "rename one, or leave it out")
        seen[name.lower()] = name


def _make_empty_frame(frame: object) -> object:
    """Make an empty frame of the same columns; None if it can be read only once."""
    kind = _find_frame_kind(frame)
    return None if kind is None else kind.scanned(kind.empty(frame))


def _make_scannable(frame: object, columns: Mapping[str, int] | None, log: str) -> object:
    """Make what DuckDB can scan once in place of a frame.

    `columns` are those that are read, each with its index among all; None for all of them.

    Raises:
        LogError: It is no frame.
    """
    kind = _find_frame_kind(frame)
    if kind is not None:
        return kind.scanned(frame if columns is None else kind.chosen(frame, columns))
    if hasattr(frame, "__arrow_c_stream__"):
        return Stream(frame)
    if hasattr(frame, "to_pyarrow"):
        return Stream(frame.to_pyarrow())
    called = "None" if frame is None else type(frame).__name__
    raise LogError(
        f"{log.removesuffix('_frame')}: {called} is not a frame",
        "give a pandas, Polars, Arrow or Ibis table, or a DuckDB relation",
    )


_RUNS = count(1)
"""Counter of attached databases, so that runs on one connection do not clash."""


_TEMPORARY = (
    "select 1 from duckdb_tables() where temporary and table_name = $1 "
    "union all select 1 from duckdb_views() where temporary and view_name = $1"
)
"""Query for a temporary table or frame, which other connections cannot see."""


class Tables:
    """Hold the databases whose tables a run reads.

    If there is a caller's connection, the run's own one switches to a new database.
    """

    def __init__(self, run: text_files.Rows, caller: duckdb.DuckDBPyConnection | None) -> None:
        self._run, self._caller = run, caller
        self._attached: list[str] = []
        if caller is not None:
            ((home,),) = run("select current_database()")
            self._home = str(home)
            run(f"use {quote(self._attach(':memory:', ''))}")

    def list_file_tables(self, file: str) -> dict[str, str]:
        """List the tables and views of a database file, name → full name."""
        with log_errors(
            f"{file} cannot be opened", "is it a DuckDB database of this version, and whole?"
        ):
            # The caller may have attached it.
            sql = "select database_name, path from duckdb_databases() where path is not null"
            # DuckDB refuses to attach one file twice.
            opened = self._run(sql)
            names = [
                str(name) for name, path in opened if resolve_path(str(path)) == resolve_path(file)
            ]
            home = names[0] if names else self._attach(file, "(read_only)")
        return {
            name if schema == "main" else f"{schema}.{name}": ".".join(
                map(quote, (database, schema, name))
            )
            for database, schema, name in self._list_tables()
            if database == home
        }

    def find(self, log: str, table: str) -> str | duckdb.DuckDBPyRelation:
        """Find the full name of a table, or its rows if only the caller sees them."""
        if self._caller is None:
            raise LogError(
                f"logs.{log}.table names {table!r}, but there is no file or connection for it",
                f"set logs.{log}.path to the database, or pass connection = ... from Python",
            )
        with log_errors("the tables of the connection cannot be listed", "is it in use?"):
            if self._caller.execute(_TEMPORARY, [table]).fetchall():
                return self._caller.table(quote(table))
            sql = "select current_database(), current_schema()"
            ((home, schema),) = self._caller.execute(sql).fetchall()
        rows = self._list_tables()
        full_names = {tuple(str(part).lower() for part in row) for row in rows}
        parts = table.split(".")
        # A name may leave out its schema, or its database too.
        for full in ([home, schema, *parts], [home, *parts], parts):
            if tuple(part.lower() for part in full) in full_names:
                return ".".join(map(quote, full))
        # Not at the top: engines are opened without an experiment too.
        from abeval.experiment.problems import suggest_name

        names = [str(name) for database, _, name in rows if database == home]
        what = f"logs.{log}: there is no table {table!r}{suggest_name(table, names)}"
        hint = f"tables and views: {', '.join(names) or 'none'}"
        raise LogError(what, hint if len(names) > 12 else None)

    def _list_tables(self) -> list[tuple[str, str, str]]:
        """List tables and views: database, schema, name."""
        rows = self._run(
            "select database_name, schema_name, table_name from duckdb_tables() where not internal "
            "union select database_name, schema_name, view_name from duckdb_views() "
            "where not internal order by all"
        )
        return [(str(database), str(schema), str(name)) for database, schema, name in rows]

    def close(self) -> None:
        """Detach what was attached, and switch back to the caller's database."""
        if self._caller is not None:
            self._run(f"use {quote(self._home)}")
            for alias in reversed(self._attached):
                self._run(f"detach {quote(alias)}")

    def _attach(self, path: str, options: str) -> str:
        alias = f"abeval_{next(_RUNS)}"
        self._run(f"attach {literal(path)} as {quote(alias)} {options}")
        self._attached.append(alias)
        return alias


_FRAME = "abeval_frame"
"""Name of the relation of a frame while it is copied."""


class _Files(NamedTuple):
    """Hold SQL that reads files."""

    sql: str


@dataclass
class _Stored:
    """Remember what a table was made of.

    Attributes:
        rows: Files as `_Files`, or a frame.
        types: Those of all columns of the rows, of which the table may have some.
        load: Reads every column.
        blank: How many rows were removed, since no column has a value.
    """

    rows: object
    types: Types
    load: Callable[[], None]
    blank: int = 0


class Logs:
    """Make relations of logs; the part of an engine that reads."""

    _tables: Tables
    _copies: Copies
    _reads_remote: bool

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_confined = False
        self._described = cache(partial(text_files.read_column_types, self._run))
        self._stored: dict[str, _Stored] = {}
        self._types: dict[str, Types] = {}
        self._rows: dict[str, int] = {}
        self._spans: dict[str, Span] = {}
        self._frames: dict[str, pd.DataFrame] = {}
        self._waiting = list[Callable[[], None]]()
        self._spare = ""

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Return the open connection."""
        raise NotImplementedError

    @property
    def _is_open(self) -> bool:
        """Tell whether a statement has run."""
        raise NotImplementedError

    def _make_waiting(self) -> None:
        """Make the relations that were named before the first statement, in their order."""
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                waiting.pop(0)()
        finally:
            self._waiting = [*waiting, *self._waiting]

    def _run(self, sql: str) -> Sequence[tuple[object, ...]]:
        """Run a statement and fetch its rows."""
        raise NotImplementedError

    def _use_all_threads(self) -> None:
        """Run statements from here on with a thread for each processor."""
        raise NotImplementedError

    def confine(self, logs: Iterable[LogSource]) -> None:
        """Open from now on nothing but these logs, where no call before named others."""
        raise NotImplementedError

    @query_errors()
    def add_log(self, name: str, source: LogSource, reads: str | None = None) -> None:
        """Make files or a table readable as the relation `name`.

        Of text files, only the columns that are named in `reads` are kept, if that is given.
        """
        self._forget(name)
        log = sources.log_name(name)
        remote = next((path for path in source.paths if "://" in path), None)
        if remote is not None and not self._reads_remote:
            raise LogError(
                f"{log} is at an address: {remote}",
                "set [engine] remote_files = true, or --remote-files: DuckDB then downloads and "
                "loads its extension to read it; or copy the files to this machine",
            )
        self.confine([source])
        if source.table is None or source.paths:
            self._add_files(name, source, reads)
            return
        table = self._tables.find(log, source.table)
        if isinstance(table, str):
            self._view_table(name, f"select * from {table}", source)
        else:
            self.add_frame(name, table, source, reads)

    def tables_in(self, files: Files) -> list[str]:
        """List the tables of a database file; of other files there are none."""
        if files.kind not in ("sqlite", "duckdb") or len(files.read) > 1:
            return []
        (file,) = files.read
        self.confine([LogSource(path=file, format=files.kind)])
        return (
            list_sqlite_tables(file)
            if files.kind == "sqlite"
            else [*self._tables.list_file_tables(file)]
        )

    def _view_table(self, name: str, sql: str, source: LogSource) -> None:
        """Create a view of a database's tables as the relation `name`."""
        what = f"{source.table or 'the table'} cannot be read as the log {sources.log_name(name)}"
        with log_errors(what, "a view of a database may read its own tables, and no file"):
            self._view_rows(name, f"({sql})", source)

    def _add_files(self, name: str, source: LogSource, reads: str | None) -> None:
        """Make files readable as the relation `name`."""
        log = sources.log_name(name)
        files = sources.find_files(log, source, self._folder)
        if files.kind == "duckdb":
            selects = [self._select_table(log, file, files, source) for file in files.read]
            self._view_table(name, " union all by name ".join(selects), source)
            return
        if files.kind in lakes.NAMES:
            table = lakes.open_table(log, Path(files.read[0]))
            if limit := sources.find_span(source, files, lakes.list_times(table)):
                table = LakeRows(table, **lakes.write_filter(table, *limit))
                self._spans[name] = limit[1]
            self.add_frame(name, table, source, reads)
            return
        files = self._copies.copy_files(log, files, source)
        hint = (
            "check that the file is complete, that lines all end alike (LF or CRLF) and that it "
            "has the format of its name; otherwise set `format`"
        )
        if files.variants:
            hint = f"paths by variant are for files without a column {text_files.VARIANT}"
        failed = f"{log} cannot be read from {', '.join(source.paths)}"
        with self._copies.name_originals(), log_errors(failed, hint):
            # Parquet is read again as fast as a table, so a view is enough; text is parsed once.
            if files.kind == "parquet":
                self._view_rows(name, text_files.write_parquet_rows(files, source), source, files)
                # One row of each column is read, to refuse damaged files here. Its values are not
                # fetched: Python may lack what some types need, such as pytz for times with a zone.
                count = f"(select count(*) from {quote(name)})"
                found = self._run(f"select {count}, columns(*) is null from {quote(name)} limit 1")
                self._rows[name] = int(str(found[0][0])) if found else 0
                return
            check_bytes(log, files.read)
            # Types are those of the first rows; where a later row does not fit, those of all.
            try:
                self._load_text(name, files, source, reads)
            except duckdb.Error:
                if files.kind == "csv":
                    check_utf8(log, files.read)
                self._load_text(name, files, source, reads, "sample_size = -1")
        self._type_time(name, source)

    def _select_table(self, log: str, file: str, files: Files, source: LogSource) -> str:
        """Write the rows of a database file's table, with the variant that its path says."""
        tables = self._tables.list_file_tables(file)
        table = tables[choose(log, file, "table", source.table, [*tables])]
        variant = files.variants.get(file)
        return f"select *{f', {literal(variant)} as variant' if variant else ''} from {table}"

    def _load_text(
        self, name: str, files: Files, source: LogSource, reads: str | None, sample: str = ""
    ) -> None:
        """Keep the rows of text files as the table `name`."""
        types = self._described(text_files.write_text_rows(files, sample))
        texts = text_files.list_text_columns(name, source, types)
        rows = _Files(text_files.write_text_rows(files, sample, types, texts))
        columns = text_files.read_columns(name, source, types, reads)
        self._store(name, _Stored(rows, types, partial(self.add_log, name, source)), columns)
        text_files.settle_ids(name, source, types, self._find_types(name), self._run)
        del self._types[name]
        if files.kind == "csv":
            sources.check_delimiter(sources.log_name(name), list(types), files.read)
            kinds = self._find_types(name)
            if source.decimal in (None, "."):
                untyped = [c for c, kind in kinds.items() if kind == "VARCHAR" and c not in texts]
                text_files.settle_numbers(name, untyped, self._run)
                del self._types[name]

    @query_errors()
    def add_frame(
        self,
        name: str,
        frame: Any,  # noqa: ANN401 (any frame)
        source: LogSource | None = None,
        reads: str | None = None,
    ) -> None:
        """Copy a frame (pandas, Polars, Arrow, Ibis) into the relation `name`.

        One whose types tell what its values are is copied with the first statement, if any.
        """
        self._forget(name)
        types = None if source is None else find_types(frame, source)
        if types is None:
            self._load_frame(name, frame, source, reads)
            return
        if not _is_small(frame):
            self._use_all_threads()
        self._frames[name], self._types[name] = frame, types
        self._rows[name] = len(frame)
        self._waiting.append(partial(self._load_frame, name, frame, source, reads))
        if self._is_open:
            self._make_waiting()

    @query_errors()
    def _load_frame(
        self, name: str, frame: object, source: LogSource | None, reads: str | None
    ) -> None:
        """Copy a frame into the relation `name`."""
        log = sources.log_name(name).removesuffix("_frame")
        hint = (
            "each column needs one type, of numbers, text, times or booleans: cast it, or drop it"
        )
        if source is not None and source.paths:
            hint = "a file of the table may be damaged: restore it"
        failed = f"{log}: the frame cannot be read"
        with log_errors(failed, hint), _translate_frame_errors(log, frame, hint):
            if not _is_small(frame):
                self._use_all_threads()
            _check_names(frame, log)
            if source is None:
                self._copy(name, frame, {}, [])
                return
            types = dict(self._types[name]) if name in self._frames else {}
            empty = None if reads is None or types else _make_empty_frame(frame)
            if empty is not None:
                with self._register_frame(empty):
                    types = text_files.read_column_types(self._run, _FRAME)
            columns = text_files.read_columns(name, source, types, reads)
            stored = _Stored(frame, types, partial(self.add_frame, name, frame, source))
            self._store(name, stored, columns)
        self._type_time(name, source)

    def _store(self, name: str, stored: _Stored, columns: Sequence[str]) -> None:
        """Store some columns as a table, without rows that have no value."""
        types = stored.types
        if self._take_over(name, stored, len(columns) == len(types)):
            return
        self._copy(name, stored.rows, types, columns)
        self._stored[name] = stored
        if name in self._frames:
            # A plain frame has no row without a value.
            return
        # A row may have a value only in a column that was left out.
        if len(columns) < len(types) and self._run(f"from {self._write_blank_rows(name)} limit 1"):
            self._copy(name, stored.rows, types, [*types])
        ((blank,),) = self._run(f"delete from {self._write_blank_rows(name)}")
        stored.blank = int(str(blank))
        self._rows[name] -= stored.blank

    def _copy(self, name: str, rows: object, types: Types, columns: Sequence[str]) -> None:
        """Create a table of some columns of rows; of all if none is named."""
        columns_sql = ", ".join(map(quote, columns)) or "*"
        create = f"create or replace table {quote(name)} as select"
        self._types.pop(name, None)
        if isinstance(rows, _Files):
            ((count,),) = self._run(f"{create} {columns_sql} from {rows.sql}")
        else:
            column_indices = {
                column: index for index, column in enumerate(types) if column in columns
            }
            with self._register_frame(
                _make_scannable(rows, column_indices or None, sources.log_name(name))
            ):
                ((count,),) = self._run(f"{create} {columns_sql} from {_FRAME}")
        self._rows[name] = int(str(count))
        kept = self._find_types(name)
        if text_files.find_struct_fields(kept):
            self._run(f"{create} {text_files.write_columns_and_fields(kept)} from {quote(name)}")
            del self._types[name]

    def _find_types(self, name: str) -> Types:
        """Find columns and types of the rows of a log, as they are now."""
        if name not in self._types:
            self._types[name] = text_files.read_column_types(self._run, quote(name))
        return self._types[name]

    def _forget(self, name: str) -> None:
        """Forget what is known of a relation that is made anew."""
        for facts in (self._stored, self._types, self._rows, self._frames):
            facts.pop(name, None)

    def _write_blank_rows(self, name: str) -> str:
        """Write the rows of a table in which no column has a value."""
        columns = self._find_types(name)
        no_value = " and ".join(f"{quote(column)} is null" for column in columns)
        return f"{quote(name)} where {no_value}"

    @contextmanager
    def _register_frame(self, rows: object) -> Iterator[None]:
        # Other frames have the same name while they are copied.
        self._make_waiting()
        self._connection.register(_FRAME, rows)
        try:
            yield
        finally:
            self._connection.unregister(_FRAME)
            if isinstance(rows, Stream):
                rows.close()

    def read_span(self, name: str) -> Span | None:
        """Return the span outside of which rows of a log were not read; None if all were."""
        return self._spans.get(name)

    def plain_frame(self, name: str) -> "pd.DataFrame | None":
        """Return the frame of a log whose columns can be read without SQL; None for others."""
        return self._frames.get(name)

    def blank_rows(self, name: str) -> int:
        """Count rows of a log that were not read, as no column has a value."""
        return self._stored[name].blank if name in self._stored else 0

    @query_errors()
    def count(self, name: str) -> int:
        """Count the rows of a log or a table."""
        if name in self._rows:
            return self._rows[name]
        ((count,),) = self._run(f"select count(*) from {quote(name)}")
        return int(str(count))

    @query_errors()
    def columns(self, relation: str) -> Mapping[str, str]:
        """List columns and types of a relation; of a log, also those left out."""
        if relation not in self._rows:
            return text_files.read_column_types(self._run, quote(relation))
        types = self._find_types(relation)
        return {**self._stored[relation].types, **types} if relation in self._stored else types

    @query_errors()
    def complete(self, name: str) -> None:
        """Read a log again with every column, if some were left out."""
        self._make_waiting()
        if name in self._stored and self._lacks_columns(name):
            self._stored[name].load()

    def _lacks_columns(self, name: str) -> bool:
        return len(self._find_types(name)) < len(self._stored[name].types)

    def spare(self, name: str) -> None:
        """Offer a relation that nobody reads any more to the next log of its rows."""
        self._spare = name

    def _take_over(self, name: str, stored: _Stored, is_whole: bool) -> bool:
        """Rename the spare table to `name` if it has these rows; tell whether it did.

        `is_whole` says that every column is needed.
        """
        spare, before = self._spare, self._stored.get(self._spare)
        # Frames of equal values may be of other types: only itself is the same.
        is_read = isinstance(stored.rows, _Files)
        if before is None or not (
            before.rows == stored.rows if is_read else before.rows is stored.rows
        ):
            return False
        self._spare = ""
        if is_whole and self._lacks_columns(spare):
            return False
        rename = f"alter table {quote(spare)} rename to {quote(name)}"
        types, rows = self._find_types(spare), self._rows[spare]
        self._run(f"drop table if exists {quote(name)}; {rename}")
        self._types[name], self._rows[name] = types, rows
        self._forget(spare)
        self._stored[name] = replace(before, load=stored.load)
        return True

    def _view_rows(
        self, name: str, rows: str, source: LogSource, files: Files | None = None
    ) -> None:
        """Create a view of a log's rows, with its time as a time."""
        types = text_files.read_column_types(self._run, rows)
        sql = f"select {text_files.write_columns_and_fields(types)} from {rows}"
        if limit := None if files is None else sources.find_span(source, files, types):
            column, span = limit
            sql += f" where {lakes.write_span(quote(column), span)}"
            self._spans[name] = span
        self._run(f"create or replace view {quote(name)} as {sql}")
        if not text_files.find_struct_fields(types):
            self._types[name] = types
        time = self._find_text_time(name, source)
        if time is not None:
            replaced = f"select * replace ({time.sql} as {quote(time.column)}) from ({sql})"
            self._run(f"create or replace view {quote(name)} as {replaced}")
            del self._types[name]

    def _find_text_time(self, name: str, source: LogSource) -> text_files.Time | None:
        """Find how the time of a log is read, if it is a text."""
        types = self._find_types(name)
        return find_text_time(sources.log_name(name), name, source, types, self._run)

    def _type_time(self, name: str, source: LogSource) -> None:
        """Convert times that are texts in a table."""
        time = self._find_text_time(name, source)
        if time is not None:
            changed = f"alter {quote(time.column)} set data type {time.kind} using {time.sql}"
            self._run(f"alter table {quote(name)} {changed}")
            del self._types[name]
