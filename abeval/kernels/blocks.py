"""Impressions set apart by block in a file, as they are read once in whatever order they come."""

from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import NamedTuple

import numpy as np

from abeval.kernels.scores import Scored, Whole

_BYTES = 8
"""Of each of the two numbers that are kept of an impression."""


class _Chunk(NamedTuple):
    """Where the rows of a chunk lie: by block, first what they are, then their scores."""

    offset: int
    edges: list[int]


class Blocks:
    """Impressions by block: written in chunks, then read a block at a time.

    Args:
        count: Of blocks, below 65,536.
        folder: Where the file lies, which nobody else sees; None for the system's folder.

    Example:
        >>> blocks = Blocks(2)
        >>> rows = Scored(np.array([4, 1]), np.array([0.5, 0.1]), np.array([0, 1]))
        >>> blocks.add(rows, np.array([1, 0]))
        >>> [blocks.read(number).unit.tolist() for number in range(2)]
        [[1], [4]]
        >>> blocks.close()
    """

    def __init__(self, count: int, folder: str | None = None) -> None:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._count = count
        self._file = TemporaryFile(prefix="abeval-", dir=folder)  # noqa: SIM115 (see close)
        self._reading = Lock()
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Scored, block: Whole) -> None:
        """Put each row into its block.

        Args:
            rows: A chunk.
            block: The number of each row's block.
        """
        short = block.astype(np.uint16)
        order = np.argsort(short, kind="stable")
        edges = np.searchsorted(short[order], np.arange(self._count + 1))
        self._chunks.append(_Chunk(self._file.tell(), edges.tolist()))
        self._file.write((2 * rows.unit + rows.click)[order].tobytes())
        self._file.write(rows.score[order].tobytes())

    def read(self, number: int) -> Scored:
        """The rows of a block."""
        codes, scores = bytearray(), bytearray()
        with self._reading:
            for offset, edges in self._chunks:
                start, end = edges[number], edges[number + 1]
                codes += self._bytes(offset, start, end)
                scores += self._bytes(offset + edges[-1] * _BYTES, start, end)
        code = np.frombuffer(codes, dtype=np.int64)
        return Scored(code >> 1, np.frombuffer(scores, dtype=np.float64), code & 1)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _bytes(self, offset: int, start: int, end: int) -> bytes:
        self._file.seek(offset + start * _BYTES)
        return self._file.read((end - start) * _BYTES)
