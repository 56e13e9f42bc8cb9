"""Tables that a log names, in a DuckDB file or in the caller's own connection.

`duckdb_logs.py` asks it for the table that a log's entry in the experiment file names, and reads
the log from it.
"""

from itertools import count
from pathlib import Path

import duckdb

from abeval.engines.duckdb_connection import log_errors
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.files import real

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
