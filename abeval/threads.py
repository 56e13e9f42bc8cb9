"""Work on parts of arrays in threads: numpy lets go of the interpreter while it computes."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")

THREADS = min(4, os.cpu_count() or 1)


def in_threads(work: Callable[[Part], Answer], parts: Iterable[Part]) -> list[Answer]:
    """The answer for each part, in their order.

    Example:
        >>> in_threads(sum, [[1, 2], [3]])
        [3, 3]
    """
    waiting = list(parts)
    if len(waiting) < 2:
        return [work(part) for part in waiting]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, waiting))
