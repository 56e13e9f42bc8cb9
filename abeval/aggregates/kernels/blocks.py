"""Sorts rows into blocks while they are read once in any order.

They stay in memory up to a limit; whenever they reach it, they go to a temporary file.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from abeval.logs.unit_arrays import narrow

Column = NDArray[Any]


class Room(NamedTuple):
    """Where rows are kept.

    Attributes:
        memory: Bytes of them that stay in memory.
        folder: Where files lie, which nobody else sees; None for the system's folder.
    """

    memory: int = 1 << 29
    folder: str | None = None


class _Chunk(NamedTuple):
    """The rows of a chunk by block: columns, and where each block begins."""

    columns: Sequence[Column]
    edges: Sequence[int]

    def read(self, number: int, places: Sequence[int]) -> list[Column]:
        """Columns of a block."""
        return [self.columns[at][self.edges[number] : self.edges[number + 1]] for at in places]


class _Filed(NamedTuple):
    """Chunks in a file: the columns of one block after those of another.

    Attributes:
        file: It is read by one thread at a time.
        columns: Type, length and place in the file of each column of each block.
    """

    file: IO[bytes]
    reading: Lock
    columns: Sequence[Sequence[tuple[np.dtype[Any], int, int]]]

    def read(self, number: int, places: Sequence[int]) -> list[Column]:
        """Columns of a block."""
        read = []
        with self.reading:
            for at in places:
                kind, length, offset = self.columns[number][at]
                self.file.seek(offset)
                read.append(np.fromfile(self.file, kind, length))
        return read


class Blocks:
    """Columns of rows by block: added in chunks, then read a block at a time.

    Args:
        count: Of blocks, below 65,536.
        room: Where to keep them.

    Example:
        >>> blocks = Blocks(2)
        >>> blocks.add([np.array([8, 7]), np.array([0.1, 0.5])], [0, 1, 2])
        >>> [column.tolist() for column in blocks.read(1, [0, 1])]
        [[7], [0.5]]
        >>> blocks.close()
    """

    def __init__(self, count: int, room: Room | None = None) -> None:
        self._count, self._room = count, room or Room()
        self._chunks: list[_Chunk] = []
        self._filed: list[_Filed] = []
        self._bytes, self._adding = 0, Lock()
        self._files = finalize(self, _close, self._filed)

    def __len__(self) -> int:
        return self._count

    def add(self, columns: Sequence[Column], edges: Sequence[int]) -> None:
        """Keep a chunk whose rows are sorted by block.

        Args:
            columns: Of the same rows; a type may differ from that of other chunks.
            edges: Where each block begins, and the end.
        """
        kept = [narrow(column) for column in columns]
        with self._adding:
            self._chunks.append(_Chunk(kept, edges))
            self._bytes += sum(column.nbytes for column in kept)
            if self._bytes > self._room.memory:
                self._write(range(len(columns)))

    def read(self, number: int, places: Sequence[int]) -> list[Column]:
        """Columns of a block at some places, its rows in the order in which they came."""
        kept: list[_Filed | _Chunk] = [*self._filed, *self._chunks]
        parts = [one.read(number, places) for one in kept]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def close(self) -> None:
        """Forget the rows, and remove the files."""
        self._chunks.clear()
        self._files()

    def _write(self, places: Sequence[int]) -> None:
        """Write what is in memory to a file, and forget it here."""
        if self._room.folder is not None:
            Path(self._room.folder).mkdir(parents=True, exist_ok=True)
        file = TemporaryFile(prefix="abeval-", dir=self._room.folder)  # noqa: SIM115 (see close)
        columns: list[list[tuple[np.dtype[Any], int, int]]] = [[] for _ in range(self._count)]
        for number, of_block in enumerate(columns):
            parts = zip(*(chunk.read(number, places) for chunk in self._chunks), strict=True)
            for column in map(np.concatenate, parts):
                of_block.append((column.dtype, len(column), file.tell()))
                file.write(column.tobytes())
        file.flush()
        self._filed.append(_Filed(file, Lock(), columns))
        self._chunks.clear()
        self._bytes = 0


def _close(filed: Sequence[_Filed]) -> None:
    for one in filed:
        one.file.close()
