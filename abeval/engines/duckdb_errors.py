"""What DuckDB refuses, told to the person who made the input."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from abeval.errors import LogError, QueryError

_MEMORY = "raise [engine] memory_limit, lower threads, or name a temp_directory with space"


@contextmanager
def asking() -> Iterator[None]:
    """Whatever goes wrong here is a fault of a query, or of the machine."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"DuckDB ran out of memory: {message(error)}", _MEMORY) from error
    except duckdb.Error as error:
        raise QueryError(f"DuckDB could not run a query: {message(error)}") from error


@contextmanager
def reading(what: str, hint: str) -> Iterator[None]:
    """Whatever goes wrong here is a fault of a log."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryError(f"{what}: {message(error)}", _MEMORY) from error
    except (duckdb.Error, RuntimeError, ValueError, TypeError) as error:
        raise LogError(f"{what}: {message(error)}", hint) from error


def plain(relation: str) -> str:
    """What the experiment file calls a log."""
    return relation.removeprefix("raw_")


def message(error: Exception) -> str:
    """What DuckDB says, without its listings and advice on its own options."""
    lines = str(error).split("\n\n")[0].splitlines()
    said = [line.strip() for line in lines if not line.startswith(("Original Line", "LINE "))]
    return " ".join(said[:2])
