"""The SQL of `queries/`: one SELECT per file, named by its path without the suffix.

Every module that runs a query gets its text here by name and hands it to the engine;
`spark/engine.py` and `statement.py` ask whether a text is one of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from abeval.errors import QueryError

_HERE = Path(__file__).parents[1]
_FOLDER = _HERE / "queries" if (_HERE / "queries").is_dir() else _HERE.parent / "queries"


_names: ContextVar[set[str] | None] = ContextVar("names", default=None)


@contextmanager
def recorded() -> Iterator[set[str]]:
    """The names of the queries that are asked for meanwhile.

    Example:
        >>> with recorded() as names:
        ...     _ = query("units/logged_sums")
        >>> names
        {'units/logged_sums'}
    """
    names: set[str] = set()
    token = _names.set(names)
    try:
        yield names
    finally:
        _names.reset(token)


def query(name: str) -> str:
    """The text of a query.

    Args:
        name: Its path below `queries/` without `.sql`, such as `units/logged_sums`.

    Raises:
        QueryError: There is no such query.

    Example:
        >>> query("units/logged_sums").startswith("-- grain:")
        True
    """
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
    """The names of all queries, sorted."""
    files = _FOLDER.rglob("*.sql")
    return tuple(sorted(str(f.relative_to(_FOLDER).with_suffix("")) for f in files))


@cache
def is_query(sql: str) -> bool:
    """Whether a text is that of a query in `queries/`.

    Example:
        >>> is_query(query("units/auc")), is_query("select 1")
        (True, False)
    """
    return any(sql == query(name) for name in query_names())
