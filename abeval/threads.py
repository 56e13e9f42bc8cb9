"""Run work on parts of arrays in threads."""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")

_THREADS = min(4, os.cpu_count() or 1)


def map_in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> Iterator[_Result]:
    """Map a function over parts in threads; yield the results in order."""
    tasks = list(parts)
    if len(tasks) < 2:
        yield from map(work, tasks)
        return
    # numpy releases the interpreter's lock while it computes.
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(work, tasks)


def give_back() -> None:
    """Return freed memory to the system."""
    # glibc keeps most of what threads have freed; other systems have no such call.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
