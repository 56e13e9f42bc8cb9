"""Spark's errors, as abeval reports them.

`engine.py` runs queries and reads within this context. It turns some errors into a `LogError`, or
reads with DuckDB instead; the rest reach the user.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from abeval.errors import QueryError


@contextmanager
def query_errors() -> Iterator[None]:
    """Raise what Spark raises as the error of a query."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise QueryError(f"Spark could not run a query: {_message(error)}") from error


def _message(error: Exception) -> str:
    """What Spark says, without Java's stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("[") or ": [" in line] or lines
    text = messages[0] if messages else type(error).__name__
    return text[text.index("[") :] if "[" in text else text
