"""Connect to warehouses: PostgreSQL by ADBC, ClickHouse by HTTP or in-process."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from sqlglot import exp

from abeval.engines.duckdb_connection import count_seconds_left
from abeval.errors import ExperimentError, QueryError, mask_secrets

_Rows = Sequence[Sequence[str | None]]
"""Rows of a query, as texts."""


class Warehouse(NamedTuple):
    """Where a statement runs: an open connection, or a dialect alone.

    Attributes:
        dialect: Of its SQL.
        catalog: A query of the names and types of a table's columns, with `{name}` for its name,
            or `{schema}` and `{table}`; empty without a connection.
        ask: Runs a query whose columns are texts.
        materializes: Whether the SQL may mark a CTE as computed once.
    """

    dialect: str
    catalog: str = ""
    ask: Callable[[str], _Rows] = lambda _: ()
    close: Callable[[], None] = lambda: None
    materializes: bool = False

    def types(self, table: str) -> dict[str, str]:
        """Return the type of each column of a table, as the warehouse names it."""
        table_name = exp.to_table(table, dialect="duckdb")
        parts = {"name": table, "schema": table_name.db, "table": table_name.name}
        texts = {part: exp.Literal.string(text).sql(self.dialect) for part, text in parts.items()}
        types = {str(name): str(kind) for name, kind in self.ask(self.catalog.format(**texts))}
        if not types:
            raise QueryError(f"the warehouse has no table {table!r}, or none with columns")
        return types


def _find_server_limit() -> float | None:
    """Return the time limit for a server, in seconds; None without one."""
    left = count_seconds_left()
    # Just later than our own limit, so that ours ends the query with its message.
    return None if left is None else max(left, 0) + 0.5


_NAMES = "postgresql://…, http://… of a ClickHouse server, or chdb:FOLDER"


def connect(uri: str) -> Warehouse:
    """Connect to a warehouse.

    Raises:
        ExperimentError: Its kind is not known, or its package is not installed.
        QueryError: It does not answer.
    """
    try:
        parts = urlsplit(uri)
        is_odd = "@" in parts.path and "@" not in parts.netloc
        is_odd |= parts.scheme.startswith("http") and parts.port == 0
    except ValueError:
        is_odd = True
    if is_odd and not uri.startswith("chdb:"):
        what = "the address of the warehouse cannot be split into user, password, host and port"
        raise ExperimentError(what, "write / ? # @ : [ and % of a password as %2F %3F %23 %40 …")
    match parts.scheme:
        case "postgresql" | "postgres":
            return _open_postgresql(uri)
        case "http" | "https":
            return _open_clickhouse(_open_http(parts))
        case "chdb":
            return _open_in_process(uri.partition(":")[2])
    what = f"{mask_secrets(uri)!r} is no warehouse that abeval knows"
    raise ExperimentError(what, f"give {_NAMES}")


def _open_postgresql(uri: str) -> Warehouse:
    with _require_extra("postgresql"):
        from adbc_driver_postgresql import dbapi
    limit = _find_server_limit()
    timeout = "" if limit is None else f"{'&' if '?' in uri else '?'}connect_timeout={ceil(limit)}"
    with _unify_errors("PostgreSQL", *_list_secrets(uri)):
        connection = dbapi.connect(uri + timeout)
        with connection.cursor() as cursor:
            cursor.execute("set default_transaction_read_only = on")
            # Sums of sums are taken for few rows, and joins of few rows are planned in loops.
            cursor.execute("set enable_nestloop = off")
            cursor.execute("set jit = off")
        # The transactions that follow only read.
        connection.commit()

    def ask(sql: str) -> _Rows:
        with _unify_errors("PostgreSQL"), connection.cursor() as cursor:
            if (limit := _find_server_limit()) is not None:
                cursor.execute(f"set statement_timeout = {1000 * limit:.0f}")
            cursor.execute(sql)
            return [*cursor.fetchall()]

    catalog = (
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute where "
        "attrelid = to_regclass({name}) and attnum > 0 and not attisdropped order by attnum"
    )
    return Warehouse("postgres", catalog, ask, connection.close)


def _open_clickhouse(
    send: Callable[[str, float | None], str], close: Callable[[], None] = lambda: None
) -> Warehouse:
    def ask(sql: str) -> _Rows:
        answer = send(f"{sql}\nformat JSONCompact", _find_server_limit())
        # What was ended may look like an answer without rows.
        if (left := count_seconds_left()) is not None and left <= 0:
            raise QueryError("ClickHouse did not answer in time")
        return [*json.loads(answer)["data"]]

    catalog = (
        "select name, type from system.columns where "
        "database = if({schema} = '', currentDatabase(), {schema}) "
        "and table = {table} order by position"
    )
    # Servers from before 2026 compute a CTE anew wherever it is read.
    settings = ask("select name from system.settings where name = 'enable_materialized_cte'")
    return Warehouse("clickhouse", catalog, ask, close, bool(settings))


def _open_http(parts: SplitResult) -> Callable[[str, float | None], str]:
    """Return a function that sends a statement to a ClickHouse server."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {
        "X-ClickHouse-User": unquote(parts.username or "default"),
        "X-ClickHouse-Key": unquote(parts.password or ""),
        "X-ClickHouse-Database": parts.path.strip("/") or "default",
    }

    def send(sql: str, limit: float | None) -> str:
        connection = kind(parts.hostname or "localhost", parts.port, timeout=limit)
        setting = "" if limit is None else f"?max_execution_time={limit:.1f}"
        try:
            connection.request("POST", f"/{setting}", sql.encode(), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, HTTPException) as error:
            raise QueryError(f"ClickHouse does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise _make_query_error("ClickHouse", text)
        return text

    return send


def _open_in_process(folder: str) -> Warehouse:
    with _require_extra("clickhouse"):
        from chdb import session
    module: Any = session
    try:
        chdb_session = module.Session(folder or None)
    except RuntimeError as error:
        what = f"chdb:{folder} is no folder in which ClickHouse can keep tables"
        raise ExperimentError(what, "name a folder that chdb wrote") from error

    def send(sql: str, limit: float | None) -> str:
        with _unify_errors("ClickHouse"):
            chdb_session.query(f"set max_execution_time = {limit or 0}")
            return str(chdb_session.query(sql))

    return _open_clickhouse(send, chdb_session.close)


@contextmanager
def _require_extra(extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        what = f"{error.name} is not installed, which this warehouse needs"
        raise ExperimentError(what, f'pip install "abeval-logs[{extra}]"') from error


@contextmanager
def _unify_errors(name: str, *secrets: str) -> Iterator[None]:
    """Turn whatever a driver raises into one kind of error, without secrets."""
    try:
        yield
    except Exception as error:
        # Drivers have no base class of errors in common.
        text = str(error)
        for secret in secrets:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
        raise _make_query_error(name, text) from error


def _list_secrets(uri: str) -> list[str]:
    """List the passwords of an address and their parts, longest first."""
    given = [uri.partition("://")[2].partition(":")[2].rpartition("@")[0]]
    given += re.findall(r"password=([^&]*)", uri)
    # A driver that cannot parse an address may print a part of its password.
    parts = {part for text in given for part in (text, unquote(text), *re.split(r"\W+", text))}
    return sorted(parts - {""}, key=len, reverse=True)


def _make_query_error(name: str, text: str) -> QueryError:
    return QueryError(f"{name} could not run a query: {' '.join(text.split())[:500]}")
