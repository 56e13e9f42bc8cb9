"""DuckDB's errors, as abeval reports them.

`duckdb.py` and `tables.py` run DuckDB within these contexts; what is raised reaches the user.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from abeval.errors import LogError, QueryError

_MEMORY = "raise [engine] memory_limit, lower threads, or name a temp_directory with free space"


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise what DuckDB raises as the error of a query."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"DuckDB ran out of memory: {message(error)}", _MEMORY) from error
    except duckdb.Error as error:
        raise QueryError(f"DuckDB could not run a query: {message(error)}") from error


@contextmanager
def log_errors(what: str, hint: str) -> Iterator[None]:
    """Raise what DuckDB raises as the error of a log."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"{what}: {message(error)}", _MEMORY) from error
    except (duckdb.Error, RuntimeError, ValueError, TypeError) as error:
        raise LogError(f"{what}: {message(error)}", hint) from error


def message(error: Exception) -> str:
    """DuckDB's message without the query's text and advice on DuckDB's own options."""
    lines = str(error).split("\n\n")[0].splitlines()
    kept = [line.strip() for line in lines if not line.startswith(("Original Line", "LINE "))]
    return " ".join(kept[:2])
