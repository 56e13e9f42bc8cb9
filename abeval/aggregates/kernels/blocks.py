"""Sorts rows into blocks, kept in one temporary file, while they are read once in any order.

`auc_pass.py` and `reach_pass.py` add chunks of rows as the engine reads them, then read each block
to compute on it.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

_BYTES = 8
"""Of each value."""


class _Chunk(NamedTuple):
    """Where the rows of a chunk lie: column after column, each by block."""

    offset: int
    edges: list[int]


class Blocks:
    """Columns of rows by block: written in chunks, then read a block at a time.

    Args:
        count: Of blocks, below 65,536.
        types: Of the columns, of eight bytes each.
        folder: Where the file lies, which nobody else sees; None for the system's folder.

    Example:
        >>> blocks = Blocks(2, ["i8", "f8"])
        >>> blocks.add(np.array([1, 0]), np.array([7, 8]), np.array([0.5, 0.1]))
        >>> [column.tolist() for column in blocks.read(0)]
        [[8], [0.1]]
        >>> blocks.close()
    """

    def __init__(self, count: int, types: Sequence[str], folder: str | None = None) -> None:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._count, self._types = count, [np.dtype(name) for name in types]
        self._file = TemporaryFile(prefix="abeval-", dir=folder)  # noqa: SIM115 (see close)
        self._reading = Lock()
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        return self._count

    def add(self, block: Whole, *columns: NDArray[np.generic]) -> None:
        """Put each row of a chunk into its block.

        Args:
            block: The number of each row's block.
            columns: Of the types that were named.
        """
        short = block.astype(np.uint16)
        order = np.argsort(short, kind="stable")
        edges = np.searchsorted(short[order], np.arange(self._count + 1))
        self._chunks.append(_Chunk(self._file.tell(), edges.tolist()))
        for column, kind in zip(columns, self._types, strict=True):
            self._file.write(column[order].astype(kind, copy=False).tobytes())

    def read(self, number: int) -> list[NDArray[np.generic]]:
        """The columns of a block, its rows in the order in which they came."""
        columns = [bytearray() for _ in self._types]
        with self._reading:
            for offset, edges in self._chunks:
                for place, column in enumerate(columns):
                    self._file.seek(offset + (place * edges[-1] + edges[number]) * _BYTES)
                    column += self._file.read((edges[number + 1] - edges[number]) * _BYTES)
        return [np.frombuffer(c, dtype=k) for c, k in zip(columns, self._types, strict=True)]

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
