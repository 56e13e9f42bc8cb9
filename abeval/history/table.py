"""The file of a history: one table in Parquet or DuckDB, replaced as a whole or not at all.

`history.py` reads and changes it; nothing else does.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb

from abeval.engines.sql import literal, quoted
from abeval.errors import ExperimentError
from abeval.files import held, write_bytes
from abeval.results.history import HistoryRow
from abeval.scratch import Scratch

TABLE = "abeval_history"
"""Its name in a DuckDB file, which may have other tables too."""

_TEXT, _NUMBER = "varchar", "double"
_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("experiment", "source", "digest", "variant", "control", "model"), _TEXT),
    **dict.fromkeys(("metric", "side", "traffic", "window", "start", "end"), _TEXT),
    **dict.fromkeys(("role", "direction", "scale"), _TEXT),
    **dict.fromkeys(("value_control", "value", "effect", "low", "high", "se"), _NUMBER),
    **dict.fromkeys(("p_value", "alpha"), _NUMBER),
    **dict.fromkeys(("units_control", "units"), "bigint"),
    "trusted": "boolean",
    **dict.fromkeys(("reason", "decision"), _TEXT),
    "shipped": "boolean",
    "shared": "map(varchar, double)",
}
"""Of `HistoryRow`, in its order."""

_LISTED = ", ".join(map(quoted, _COLUMNS))
_ORDER = "order by experiment, source, side, variant, traffic, metric, start"


def kind_of(path: Path) -> str:
    """What a history file is, by its suffix.

    Raises:
        ExperimentError: It is neither.
    """
    kinds = {".parquet": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
    if path.suffix.lower() not in kinds:
        what = f"a history is a Parquet or DuckDB file, but {path} is not named so"
        raise ExperimentError(what, "name it history.parquet or history.duckdb")
    return kinds[path.suffix.lower()]


def read_rows(path: Path) -> list[HistoryRow]:
    """All rows, in a fixed order; none where the file does not exist.

    Raises:
        ExperimentError: It is no history, or is in use.
    """
    kind_of(path)
    if not path.exists():
        return []
    with closing(Scratch(None, "abeval-history-")) as scratch, _connected(path, scratch) as table:
        return _rows(table)


@contextmanager
def changing(path: Path) -> Iterator["Table"]:
    """The rows of a history to be changed; what was changed is written when the block ends.

    Nothing is written if the block fails, or nothing changed. One run at a time has it.

    Raises:
        ExperimentError: It is no history, or is in use.
        AbevalError: It cannot be written there.
    """
    kind = kind_of(path)
    with (
        held(path.with_name(f"{path.name}.lock"), str(path)),
        closing(Scratch(None, "abeval-history-")) as scratch,
    ):
        with _connected(path, scratch) as connection:
            table = Table(connection, scratch.path)
            yield table
            written = scratch.path / f"history.{kind}"
            if table.changed and kind == "parquet":
                rows = f"select {_LISTED} from {TABLE} {_ORDER}"
                connection.execute(f"copy ({rows}) to {literal(str(written))} (format parquet)")
        if table.changed:
            write_bytes(path, written.read_bytes())


class Table:
    """The rows of an open history."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self._connection, self._folder = connection, folder
        self.changed = False

    def digests(self, experiment: str) -> dict[str, tuple[str, int]]:
        """Source → digest of its rows, and their number."""
        query = f"select source, min(digest), count(*) from {TABLE} where experiment = ? group by 1"
        answer = self._connection.execute(query, [experiment]).fetchall()
        return {source: (digest, count) for source, digest, count in answer}

    def replace(self, experiment: str, source: str, rows: Sequence[HistoryRow]) -> None:
        """Put rows in the place of those of the same experiment and source."""
        where = "where experiment = ? and source = ?"
        self._connection.execute(f"delete from {TABLE} {where}", [experiment, source])
        file = self._folder / "rows.json"
        texts = (json.dumps({**asdict(row), "shared": dict(row.shared)}) for row in rows)
        file.write_text("\n".join(texts), encoding="utf-8", errors="backslashreplace")
        types = ", ".join(f"{quoted(name)}: {literal(kind)}" for name, kind in _COLUMNS.items())
        read = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
        if rows:
            insert = f"insert into {TABLE} by name select {_LISTED} from {read}"
            self._connection.execute(insert, [str(file)])
        self.changed = True

    def experiments(self) -> int:
        """How many experiments there are."""
        query = f"select count(distinct experiment) from {TABLE}"
        return int(self._connection.execute(query).fetchall()[0][0])


@contextmanager
def _connected(path: Path, scratch: Scratch) -> Iterator[duckdb.DuckDBPyConnection]:
    """The rows of a file as a table of a copy of it, so that the file is only read."""
    kind = kind_of(path)
    copy = scratch.path / "history.duckdb"
    try:
        if kind == "duckdb" and path.exists():
            _refuse_if_open(path)
            shutil.copyfile(path, copy)
        connection = duckdb.connect(str(copy), config={"autoinstall_known_extensions": "false"})
    except (duckdb.Error, OSError) as error:
        raise ExperimentError(f"cannot read {path}: {error}", _MEND) from error
    with closing(connection):
        columns = ", ".join(f"{quoted(name)} {type_}" for name, type_ in _COLUMNS.items())
        connection.execute(f"create table if not exists {TABLE} ({columns})")
        try:
            if kind == "parquet" and path.exists():
                insert = f"insert into {TABLE} by name select {_LISTED} from read_parquet(?)"
                connection.execute(insert, [str(path)])
            connection.execute(f"select {_LISTED} from {TABLE} limit 0")
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise ExperimentError(f"{path} is no history of abeval: {first}", _MEND) from error
        yield connection


_MEND = "name a file that abeval history add wrote, or a new one"


def _refuse_if_open(path: Path) -> None:
    if path.with_name(f"{path.name}.wal").exists():
        what = f"{path} is open in another program, or was not closed: it has a write-ahead log"
        raise ExperimentError(
            what, "close it there, or open it once with DuckDB and run checkpoint"
        )


def _rows(connection: duckdb.DuckDBPyConnection) -> list[HistoryRow]:
    answer = connection.execute(f"select {_LISTED} from {TABLE} {_ORDER}").fetchall()
    return [_row(dict(zip(_COLUMNS, row, strict=True))) for row in answer]


def _row(values: dict[str, Any]) -> HistoryRow:
    shared = values.pop("shared") or {}
    return HistoryRow(**values, shared=tuple(shared.items()))
