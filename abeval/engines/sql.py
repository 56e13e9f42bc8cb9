"""Pieces of SQL text, with names and values quoted, and the queries of `queries/`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Literal

from abeval.errors import QueryError


def quoted(name: str) -> str:
    """Quote an identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a string literal, whatever characters it has."""
    return "'" + text.replace("'", "''") + "'"


def cast_query(kinds: Mapping[str, str], cast: Literal["cast", "try_cast"] = "cast") -> str:
    """Write the `query` of a log that gives columns other types; column → type.

    With `try_cast`, values that have none of the type become null.

    Example:
        >>> cast_query({"user_id": "bigint"})
        'select * replace (cast("user_id" as bigint) as "user_id") from log'
    """
    casts = ", ".join(
        f"{cast}({quoted(column)} as {kind}) as {quoted(column)}" for column, kind in kinds.items()
    )
    return f"select * replace ({casts}) from log"


def by_value(subject: str, answers: Mapping[str, str]) -> str:
    """Write SQL that depends on the value of other SQL: value → result; null for any other value.

    Example:
        >>> by_value("u.variant", {"control": "a", "treatment": "b"})
        "case u.variant when 'control' then a when 'treatment' then b end"
    """
    cases = " ".join(f"when {literal(value)} then {sql}" for value, sql in answers.items())
    return f"case {subject} {cases} end"


def numbered(subject: str, values: Sequence[str]) -> str:
    """Write the place of a value in a list, from 0; null for any other value."""
    return by_value(subject, {value: str(i) for i, value in enumerate(values)})


_HERE = Path(__file__).parents[1]
_FOLDER = _HERE / "queries" if (_HERE / "queries").is_dir() else _HERE.parent / "queries"


_names: ContextVar[set[str] | None] = ContextVar("names", default=None)


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Note the names of the queries that are asked for meanwhile."""
    names: set[str] = set()
    token = _names.set(names)
    try:
        yield names
    finally:
        _names.reset(token)


def query(name: str) -> str:
    """Return the text of a query, one SELECT, by its path below `queries/` without `.sql`."""
    names = _names.get()
    if names is not None:
        names.add(name)
    return _text(name)


@cache
def _text(name: str) -> str:
    file = _FOLDER / f"{name}.sql"
    if name not in query_names():
        raise QueryError(f"no query is called {name!r}", f"known: {', '.join(query_names())}")
    return file.read_text(encoding="utf-8")


@cache
def query_names() -> tuple[str, ...]:
    """List the names of all queries, sorted."""
    files = _FOLDER.rglob("*.sql")
    return tuple(sorted(str(f.relative_to(_FOLDER).with_suffix("")) for f in files))


@cache
def is_query(sql: str) -> bool:
    """Tell whether a text is that of a query in `queries/`."""
    return any(sql == query(name) for name in query_names())
