"""A database of this process in which nothing is kept: what reads the footers of files asks it.

To open a database costs more than the footers of a log, so it is opened once, not for each log.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb


@contextmanager
def reader() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own, to read what files say of themselves."""
    # A process that was forked has its parent's threads no more, so it opens its own.
    with _database(os.getpid()).cursor() as connection:
        yield connection


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    # Files change between two analyses, so nothing of them is cached.
    opened = duckdb.connect(config={"enable_external_file_cache": "false"})
    atexit.register(_close, process)
    return opened


def _close(process: int) -> None:
    if process == os.getpid():
        _database(process).close()
        _database.cache_clear()
