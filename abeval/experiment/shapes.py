"""Checks of how a log is shaped: its query, its filter, its formats and its zone of time.

`consistency.py` calls it for each log of the file.
"""

from collections.abc import Collection, Iterator
from zoneinfo import ZoneInfo, available_timezones

from abeval.experiment.problems import Problem, suggestion
from abeval.experiment.sources import OWN_TABLE, LogSource
from abeval.metrics.row_text import expression_problem

_ROWS = ("UNNEST", "RANGE", "GENERATE_SERIES")
"""Functions that make rows of values, and read nothing."""


def shape_problems(name: str, log: LogSource, tables: Collection[str]) -> Iterator[Problem]:
    """What is wrong with the shape of a log.

    Args:
        name: Of the log.
        log: Its entry.
        tables: The names under [tables].
    """
    where = ("logs", *name.split("."))
    if log.ts_zone is not None and not _is_zone(log.ts_zone):
        hint = suggestion(log.ts_zone, available_timezones())
        yield Problem((*where, "ts_zone"), f"unknown time zone {log.ts_zone!r}{hint}")
    if log.time_unit is not None and log.ts_format is not None:
        yield Problem((*where, "ts_format"), "has no meaning beside `time_unit`; keep one")
    if log.where is not None and (problem := expression_problem(log.where)):
        yield Problem((*where, "where"), problem)
    if log.query is not None and (problem := query_problem(log.query, {OWN_TABLE, *tables})):
        yield Problem((*where, "query"), problem)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def query_problem(text: str, tables: Collection[str]) -> str | None:
    """Why a text is not one SELECT over these tables, or None where it is one.

    Example:
        >>> query_problem("select * from log", ["log"])
        >>> query_problem("select * from 'other.parquet'", ["log"])
        "reads 'other.parquet'; it may read: log"
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="duckdb") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        return f"is not SQL: {str(error).splitlines()[0]}"
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return "is not one SELECT"
    known = {name.lower() for name in tables}
    known |= {cte.alias.lower() for cte in trees[0].find_all(exp.CTE)}
    for table in trees[0].find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            if table.this.sql_name().upper() in _ROWS or table.name.upper() in _ROWS:
                continue
            return f"calls {table.this.sql('duckdb')!r} in `from`; it may read: {_listed(tables)}"
        if table.args.get("db") or table.name.lower() not in known:
            return f"reads {table.name!r}; it may read: {_listed(tables)}"
    return None


def _listed(tables: Collection[str]) -> str:
    return ", ".join(sorted(tables))
