"""The SQL of `queries/`: one SELECT per file, named by its path without the suffix."""

from functools import cache
from pathlib import Path

from abeval.errors import QueryError

_HERE = Path(__file__).parents[1]
_FOLDER = _HERE / "queries" if (_HERE / "queries").is_dir() else _HERE.parent / "queries"


@cache
def query(name: str) -> str:
    """The text of a query.

    Args:
        name: Its path below `queries/` without `.sql`, such as `units/unit_day`.

    Raises:
        QueryError: There is no such query.

    Example:
        >>> query("units/unit_day").startswith("-- grain:")
        True
    """
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
        >>> is_query(query("units/unit_day")), is_query("select 1")
        (True, False)
    """
    return any(sql == query(name) for name in query_names())
