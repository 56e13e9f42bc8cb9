"""Run work on parts of arrays in threads."""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)


def map_in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Map a function over parts in threads; yield the results in order."""
    tasks = list(parts)
    if len(tasks) < 2:
        yield from map(work, tasks)
        return
    # numpy releases the interpreter's lock while it computes.
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(work, tasks)


def give_back() -> None:
    """Return freed memory to the system."""
    # glibc keeps most of what threads have freed; other systems have no such call.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
