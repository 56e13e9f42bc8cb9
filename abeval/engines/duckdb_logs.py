"""Load logs into DuckDB as relations: frames, tables and files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from abeval.engines import lakes, sources, text_files
from abeval.engines.copies import Copies, check_utf8, list_sqlite_tables
from abeval.engines.duckdb_connection import (
    Database,
    Tables,
    log_errors,
    query_errors,
    write_confinement,
)
from abeval.engines.frames import (
    Stream,
    check_names,
    find_frame_kind,
    find_types,
    is_small,
    translate_frame_errors,
)
from abeval.engines.sources import Files, are_small, choose, find_readable_files
from abeval.engines.sql import literal, quote
from abeval.engines.text_bytes import check_bytes
from abeval.engines.text_files import Types, find_text_time
from abeval.errors import LogError
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource, Span

if TYPE_CHECKING:
    import pandas as pd

_FRAME = "abeval_frame"
"""Name of the relation of a frame while it is copied."""


@dataclass
class _Stored:
    """Remember what a table was made of.

    Attributes:
        rows: SQL that reads files, or a frame.
        types: Those of all columns of the rows, of which the table may have some.
        load: Reads every column.
        blank: How many rows were removed, since no column has a value.
    """

    rows: object
    types: Types
    load: partial[None]
    blank: int = 0

    def has_rows_of(self, other: "_Stored") -> bool:
        """Tell whether another table was made of the same rows."""
        # Frames of equal values may be of other types: only itself is the same.
        is_sql = isinstance(self.rows, str)
        return self.rows == other.rows if is_sql else self.rows is other.rows


class Logs(Database):
    """Make relations of logs; the part of an engine that reads."""

    def __init__(
        self,
        options: EngineOptions,
        folder: Path,
        connection: duckdb.DuckDBPyConnection | None,
    ) -> None:
        super().__init__(options, connection)
        self._folder = folder
        self._copies = Copies(options.temp_directory)
        self._tables = Tables(self._run, connection)
        self._reads_remote = connection is not None or options.remote_files
        self._described = cache(partial(text_files.read_column_types, self._run))
        self._stored: dict[str, _Stored] = {}
        self._types: dict[str, Types] = {}
        self._rows: dict[str, int] = {}
        self._spans: dict[str, Span] = {}
        self._frames: dict[str, pd.DataFrame] = {}
        self._spare = ""

    def confine(
        self,
        logs: Iterable[LogSource],
        folders: Sequence[str] = (),
        *,
        with_copies: bool = False,
    ) -> None:
        """Open from now on only the files of these logs and these folders.

        The first call counts: no extension can be loaded after it, and no setting changed. The
        connection of a caller keeps its own settings; with `[engine] remote_files` and such a file,
        DuckDB may open any. `with_copies` opens also copies of files whose encoding is not known.
        """
        if self._is_confined:
            return
        files_by_log = [find_readable_files("", log, self._folder) for log in logs]
        there = [files for files in files_by_log if files is not None]
        # Frames that are still to come may have many rows.
        has_frames = bool(self._stored or self._frames)
        if (len(there) < max(len(files_by_log), 1) and not has_frames) or not are_small(there):
            self._use_all_threads()
        self._is_confined = True
        if self._caller is not None or (self._reads_remote and not all(f.are_local for f in there)):
            return
        files = [file for log_files in there for file in (*log_files.read, *log_files.empty)]
        if with_copies or any(log_files.are_copied for log_files in there):
            folders = [*folders, str(self._copies.folder)]
        with query_errors():
            self._set(*write_confinement(files, folders))

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
                table = lakes.LakeRows(table, **lakes.write_filter(table, *limit))
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
                self._rows[name] = found[0][0] if found else 0
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
        rows = text_files.write_text_rows(files, sample, types, texts)
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
        if not is_small(frame):
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
        kind, failed = find_frame_kind(log, frame), f"{log}: the frame cannot be read"
        with log_errors(failed, hint), translate_frame_errors(log, frame, hint):
            if not is_small(frame):
                self._use_all_threads()
            check_names(frame, log)
            if source is None:
                self._copy(name, frame, {}, [])
                return
            types = self._types.get(name, {})
            if kind.empty is not None and reads is not None and not types:
                with self._register_frame(kind.stream(kind.empty(frame))):
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
        stored.blank = blank
        self._rows[name] -= stored.blank

    def _copy(self, name: str, rows: object, types: Types, columns: Sequence[str]) -> None:
        """Create a table of some columns of rows; of all if none is named."""
        columns_sql = ", ".join(map(quote, columns)) or "*"
        create = f"create or replace table {quote(name)} as select"
        self._types.pop(name, None)
        if isinstance(rows, str):
            ((count,),) = self._run(f"{create} {columns_sql} from {rows}")
        else:
            kind = find_frame_kind(sources.log_name(name).removesuffix("_frame"), rows)
            chosen = kind.choose(rows, [*columns]) if columns else rows
            with self._register_frame(kind.stream(chosen)):
                ((count,),) = self._run(f"{create} {columns_sql} from {_FRAME}")
        self._rows[name] = count
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
        """Return the frame of a log if its columns can be read without SQL, else None."""
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
        return int(count)

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
        if before is None or not before.has_rows_of(stored):
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

    def close(self) -> None:
        """Release memory and files, and detach from the caller's connection."""
        self._waiting.clear()
        # A second time there is no thread that could do it.
        with suppress(duckdb.Error, RuntimeError):
            self._tables.close()
        super().close()
        self._copies.close()
