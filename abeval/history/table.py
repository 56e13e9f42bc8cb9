"""Keep a history in one table of Parquet or DuckDB, replaced atomically."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple, get_args

import duckdb

from abeval.engines.duckdb_connection import extract_message, open_database
from abeval.engines.sql import literal, quote
from abeval.errors import ExperimentError
from abeval.files import check_readable, hold_lock, resolve_path, write_bytes
from abeval.results.history import HistoryRow
from abeval.scratch import Scratch

TABLE = "abeval_history"
"""Name of the table in a DuckDB file, which may have other tables too."""

_TYPES = {float: "double", int: "bigint", bool: "boolean"}
# SQL type by field of `HistoryRow`, in the order of the fields.
_COLUMNS: Mapping[str, str] = {
    f.name: _TYPES.get((*get_args(f.type), f.type)[0], "varchar") for f in fields(HistoryRow)
}

_ADDED = ("week", "covariance", "site_lift", "site_se", "triggered")
"""Columns that histories of older versions do not have."""

WAIT = 60.0
"""Seconds to wait for another run that edits the same history."""

_KEY = "abeval_digest"
_COLUMN_LIST = ", ".join(map(quote, _COLUMNS))
_CASTS = ", ".join(
    f"cast({TABLE}.{quote(name)} as {kind}) as {quote(name)}" for name, kind in _COLUMNS.items()
)
_DEFINITIONS = ", ".join(f"{quote(name)} {kind}" for name, kind in _COLUMNS.items())
_ORDER = "order by experiment, source, side, variant, traffic, metric, start"


def tell_file_kind(path: Path) -> str:
    """Return the kind of a history file, by its suffix; raise for others."""
    kinds = {".parquet": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
    if path.suffix.lower() not in kinds:
        what = f"a history is a Parquet or DuckDB file, but {path} is not named so"
        raise ExperimentError(what, "name it history.parquet or history.duckdb")
    return kinds[path.suffix.lower()]


class StoredRows(NamedTuple):
    """The rows of a history file, and whether a digest confirms them."""

    rows: tuple[HistoryRow, ...]
    is_signed: bool


def read_rows(path: Path) -> StoredRows:
    """Read all rows; none if the file does not exist."""
    with (
        closing(Scratch(None, "abeval-history-")) as scratch,
        _open_copy(path, scratch) as (_, kept),
    ):
        return kept


@contextmanager
def edit_rows(path: Path) -> Iterator[list[HistoryRow]]:
    """Open the rows of a history for editing; write them at the end.

    Nothing is written if the block fails, or if nothing changed. Only one run can edit at a time;
    others wait.
    """
    target = resolve_path(path)
    with (
        hold_lock(target.with_name(f"{target.name}.lock"), str(path), WAIT),
        closing(Scratch(None, "abeval-history-")) as scratch,
    ):
        written = scratch.path / f"history.{tell_file_kind(path)}"
        with _open_copy(path, scratch) as (connection, kept):
            rows = [*kept.rows]
            yield rows
            is_changed = rows != [*kept.rows]
            if is_changed:
                _write(connection, written, rows)
        if is_changed:
            # After the connection is closed, so that all rows are in the file.
            write_bytes(path, written.read_bytes())


def _write(connection: duckdb.DuckDBPyConnection, copy: Path, rows: Sequence[HistoryRow]) -> None:
    """Write rows and their digest to Parquet, or to the open database."""
    file = copy.with_name("rows.json")
    texts = (json.dumps(asdict(row)) for row in rows)
    file.write_text("\n".join(texts), encoding="utf-8", errors="backslashreplace")
    types = ", ".join(f"{quote(name)}: {literal(kind)}" for name, kind in _COLUMNS.items())
    read = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
    connection.execute(f"delete from {TABLE}")
    if rows:
        insert = f"insert into {TABLE} by name select {_COLUMN_LIST} from {read}"
        connection.execute(insert, [str(file)])
    digest = literal(_digest(_read_values(connection)))
    if tell_file_kind(copy) == "duckdb":
        connection.execute(f"comment on table {TABLE} is {digest}")
        return
    options = f"format parquet, kv_metadata {{{_KEY}: {digest}}}"
    selection = f"select {_COLUMN_LIST} from {TABLE} {_ORDER}"
    connection.execute(f"copy ({selection}) to {literal(str(copy))} ({options})")


@contextmanager
def _open_copy(
    path: Path, scratch: Scratch
) -> Iterator[tuple[duckdb.DuckDBPyConnection, StoredRows]]:
    """Open a sandboxed copy of a history and read its rows."""
    kind = tell_file_kind(path)
    copy = scratch.path / f"history.{kind}"
    check_readable(path, path)
    try:
        if path.exists():
            # With a write-ahead log, the file alone is not complete.
            if path.with_name(f"{path.name}.wal").exists():
                why = f"{path} is open in another program, or was not closed"
                hint = "close it there, or open it once with DuckDB and run checkpoint"
                raise ExperimentError(f"{why}: it has a write-ahead log", hint)
            # A failure on the copy leaves the history as it was.
            shutil.copyfile(path, copy)
        folder = str(scratch.path)
        connection = open_database(f"{folder}/history.duckdb", folders=[folder])
    except duckdb.Error as error:
        what = f"cannot read {path}: it is no DuckDB database of this version, or is damaged"
        raise ExperimentError(what, _MEND) from error
    except OSError as error:
        raise ExperimentError(f"cannot read {path}: {error.strerror or error}", _MEND) from error
    with closing(connection):
        try:
            views = f"select 1 from duckdb_views() where view_name = {literal(TABLE)}"
            if connection.execute(views).fetchall():
                raise ExperimentError(f"{path} is no history: {TABLE} is a view in it", _MEND)
            signature = f"select comment from duckdb_tables() where table_name = {literal(TABLE)}"
            if kind == "parquet" and copy.exists():
                file = literal(str(copy))
                connection.execute(f"create table {TABLE} as from read_parquet({file})")
                source = f"from parquet_kv_metadata({file}) where key = {literal(_KEY)}"
                signature = f"select decode(value) {source}"
            connection.execute(f"create table if not exists {TABLE} ({_DEFINITIONS})")
            for name in _ADDED:
                add = f"add column if not exists {quote(name)} {_COLUMNS[name]}"
                connection.execute(f"alter table {TABLE} {add}")
            if kind == "parquet":
                # Another program may have saved narrower types, which new rows would not fit.
                typed = f"select {_CASTS} from {TABLE}"
                connection.execute(f"create or replace table {TABLE} as {typed}")
            answer = connection.execute(signature).fetchall()
            # Histories of older versions have no digest and are read all the same.
            signatures = {digest for (digest,) in answer if digest}
            values = _read_values(connection)
            if not signatures <= {_digest(values)}:
                what = f"{path} is damaged or was changed: its rows are not those that were written"
                raise ExperimentError(what, "restore it, or add its results to a new history")
            is_signed = bool(signatures) or not path.exists()
            yield connection, StoredRows(tuple(HistoryRow(**row) for row in values), is_signed)
        except (duckdb.Error, UnicodeDecodeError) as error:
            what = f"{path} is no history of abeval: {extract_message(error)}"
            raise ExperimentError(what, _MEND) from error


def _read_values(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    answer = connection.execute(f"select {_CASTS} from {TABLE} {_ORDER}").fetchall()
    return [dict(zip(_COLUMNS, row, strict=True)) for row in answer]


def _digest(values: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of rows that ignores their order and missing values."""
    # Columns added by later versions must not change old digests.
    rows = ({name: v for name, v in row.items() if v is not None} for row in values)
    texts = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


_MEND = "name a file that abeval history add wrote, or a new one"
