"""Work on parts of arrays in threads, which run in parallel while numpy computes."""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Give the result for each part, in order, as soon as it is there."""
    listed = list(parts)
    if len(listed) < 2:
        yield from map(work, listed)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(work, listed)


def give_back() -> None:
    """Give the system the memory that threads have freed, of which glibc keeps most."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
