"""Sorts rows into blocks while they are read once in any order.

They stay in memory up to a limit; what comes after it lies in one temporary file.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

MEMORY = 1 << 29
"""Bytes of rows that are kept in memory."""


class _Chunk(NamedTuple):
    """The rows of a chunk by block: columns, in memory or in the file, and where each begins."""

    columns: Sequence[Column]
    edges: Sequence[int]


class Blocks:
    """Columns of rows by block: added in chunks, then read a block at a time.

    Args:
        count: Of blocks, below 65,536.
        folder: Where the file lies, which nobody else sees; None for the system's folder.

    Example:
        >>> blocks = Blocks(2)
        >>> blocks.add([np.array([8, 7]), np.array([0.1, 0.5])], [0, 1, 2])
        >>> [column.tolist() for column in blocks.read(1)]
        [[7], [0.5]]
        >>> blocks.close()
    """

    def __init__(self, count: int, folder: str | None = None) -> None:
        self._count, self._folder = count, folder
        self._chunks: list[_Chunk] = []
        self._bytes, self._adding = 0, Lock()
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, columns: Sequence[Column], edges: Sequence[int]) -> None:
        """Keep a chunk whose rows are sorted by block.

        Args:
            columns: Of the same rows; a type may differ from that of other chunks.
            edges: Where each block begins, and the end.
        """
        with self._adding:
            self._bytes += sum(column.nbytes for column in columns)
            if self._bytes > MEMORY:
                columns = [self._filed(column) for column in columns]
            self._chunks.append(_Chunk(columns, edges))

    def read(self, number: int, places: Sequence[int] | None = None) -> list[Column]:
        """Columns of a block, its rows in the order in which they came.

        Args:
            number: Of the block.
            places: Of the columns; None for all.
        """
        parts = [
            [
                column[edges[number] : edges[number + 1]]
                for column in (columns if places is None else [columns[at] for at in places])
            ]
            for columns, edges in self._chunks
        ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def close(self) -> None:
        """Forget the rows, and remove the file."""
        self._chunks.clear()
        if self._file is not None:
            self._file.close()

    def _filed(self, column: Column) -> Column:
        """Write a column to the file, and read it from there."""
        if not len(column):
            return column
        if self._file is None:
            if self._folder is not None:
                Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(prefix="abeval-", dir=self._folder)  # noqa: SIM115 (see close)
        offset = self._file.tell()
        self._file.write(column.tobytes())
        self._file.flush()
        return np.memmap(self._file, column.dtype, "r", offset, column.shape)
