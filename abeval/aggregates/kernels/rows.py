"""Keep impressions of units as narrow columns by block: what the kernels compute on."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple, TypeVar, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import ArrayEngine, Engine, Spread, SpreadEngine
from abeval.experiment.sections import EngineOptions
from abeval.logs import unit_arrays
from abeval.logs.unit_arrays import HashIndex, Places
from abeval.threads import give_back, in_threads

Column = NDArray[Any]
Columns = Mapping[str, Column]


class Room(NamedTuple):
    """Bytes of rows that stay in memory, and the folder of files; None for the system's."""

    memory: int = 1 << 29
    folder: str | None = None


@dataclass(frozen=True, eq=False)
class _Filed:
    """A column in a file, which one thread at a time reads."""

    file: IO[bytes]
    reading: Lock
    kind: np.dtype[Any]
    offset: int

    def __getitem__(self, rows: slice) -> Column:
        with self.reading:
            self.file.seek(self.offset + rows.start * self.kind.itemsize)
            return np.fromfile(self.file, self.kind, rows.stop - rows.start)


class _Chunk(NamedTuple):
    """Columns of rows that are sorted by block, and where each block begins."""

    columns: Mapping[str, Column | _Filed]
    edges: Sequence[int]

    def read(self, number: int, name: str) -> Column:
        return self.columns[name][self.edges[number] : self.edges[number + 1]]


class Blocks:
    """Columns of rows by up to 65,535 blocks: added in chunks, then read a block at a time.

    Example:
        >>> blocks = Blocks(2)
        >>> blocks.add({"item": np.array([8, 7]), "score": np.array([0.1, 0.5])}, [0, 1, 2])
        >>> {name: column.tolist() for name, column in blocks.read(1).items()}
        {'item': [7], 'score': [0.5]}
    """

    def __init__(self, count: int, room: Room | None = None) -> None:
        self._count, self._room = count, room or Room()
        self._held, self._filed = list[_Chunk](), list[_Chunk]()
        self._bytes, self._files = 0, ExitStack()
        self._remove = finalize(self, self._files.close)

    def add(self, columns: Columns, edges: Sequence[int]) -> None:
        """Keep a chunk whose rows are sorted by block; its types may differ from other chunks'."""
        narrow = {name: unit_arrays.narrow(column) for name, column in columns.items()}
        self._held.append(_Chunk(narrow, edges))
        self._bytes += sum(column.nbytes for column in narrow.values())
        if self._bytes > self._room.memory:
            self._write()

    def read(self, number: int, names: Collection[str] | None = None) -> dict[str, Column]:
        """Return the named columns of a block that are kept, rows in the order they came in."""
        chunks = [*self._filed, *self._held]
        return {
            name: np.concatenate([chunk.read(number, name) for chunk in chunks])
            for name in chunks[0].columns
            if names is None or name in names
        }

    def __len__(self) -> int:
        return self._count if self._filed or self._held else 0

    def close(self) -> None:
        """Forget the rows, and remove the files."""
        self._held.clear()
        self._filed.clear()
        self._remove()

    def _write(self) -> None:
        """Move the chunks in memory to a file, as one."""
        folder = self._room.folder
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        opened = TemporaryFile(prefix="abeval-", dir=folder)  # noqa: SIM115 (see close)
        file = self._files.enter_context(opened)
        columns, lock = dict[str, Column | _Filed](), Lock()
        for name in self._held[0].columns:
            parts = [chunk.read(i, name) for i in range(self._count) for chunk in self._held]
            column = np.concatenate(parts)
            columns[name] = _Filed(file, lock, column.dtype, file.tell())
            file.write(column.tobytes())
        file.flush()
        edges = np.sum([chunk.edges for chunk in self._held], axis=0).tolist()
        self._filed.append(_Chunk(columns, edges))
        self._held.clear()
        self._bytes = 0


Result = TypeVar("Result")

BLOCK = 500_000
"""Impressions of a block, about: some 50 MB while it is worked on."""

NONE = -(2**62)
"""Stands for null in a column of whole numbers."""

_KEPT = ("in_period", "day", "request")
"""Columns of a chunk that are the same within a run."""


@dataclass(frozen=True)
class Block:
    """All impressions of some units.

    Attributes:
        runs: `unit` (its place), `in_period`, `length` (impressions), and as asked: `day` (local,
            since 1970), `request`, `first_ms` and `last_ms`.
        rows: Columns of each impression, in the order of the runs.
    """

    runs: Columns
    rows: Columns

    @cached_property
    def run(self) -> Places:
        """Return the number of each impression's run."""
        return self.of_run(np.arange(len(self.runs["length"])))

    def of_run(self, column: Column) -> Column:
        """Return the value of each impression's run."""
        return np.repeat(column, self.runs["length"])


class Choice(NamedTuple):
    """One of some columns of a chunk: which, by the place of each unit; `none` for -1."""

    columns: Sequence[str]
    of_unit: NDArray[np.int16]
    none: float = NONE

    def of(self, chunk: Columns, unit: NDArray[np.int32], length: Places) -> Column:
        """Return the value of each row from its unit's column; any where no unit is known."""
        kind = self.of_unit[unit]
        values = chunk[self.columns[0]].copy()
        for number in filter(None, np.unique(kind).tolist()):
            own = self.none if number < 0 else chunk[self.columns[number]]
            np.copyto(values, own, where=np.repeat(kind == number, length))
        return values


@dataclass(frozen=True)
class Scan:
    """A scan of impressions, and how they are put in the order of the blocks of their units.

    Attributes:
        sql: Its query: `unit` (hash), and what `choices` and `numbered` need; nothing null.
        hashes: Of the analysed units, ascending; impressions of others are left out.
        slot_ms: A run ends where time enters another slot of this length.
        numbered: What becomes of the columns before they are placed.
    """

    sql: str
    hashes: NDArray[np.int64]
    count: int
    slot_ms: int = 1
    choices: Mapping[str, Choice] = field(default_factory=dict)
    numbered: Callable[[Columns], Columns] = dict[str, Column]
    room: Room | None = None
    dated: bool = False

    @cached_property
    def _index(self) -> HashIndex:
        return HashIndex(self.hashes)

    def place(self, columns: Columns) -> tuple[Block, Sequence[int], Sequence[int]]:
        """Put the impressions of analysed units, of those in a chunk, in the order of blocks.

        Returns:
            The impressions, and where the blocks begin in their runs and in their rows.
        """
        chunk = dict(self.numbered(columns))
        start = _starts(chunk, self.slot_ms)
        unit, length = self._index.places(chunk["unit"][start]), len(chunk["unit"])
        known, lengths = np.flatnonzero(unit >= 0), np.diff(start, append=length)
        block = unit[known] * np.int64(self.count) // max(len(self.hashes), 1)
        order = known[np.argsort(block.astype(np.uint16), kind="stable")]
        runs = {name: chunk.pop(name)[start[order]] for name in _KEPT if name in chunk}
        runs |= {"unit": unit[order], "length": lengths[order].astype(np.int32)}
        if "time_ms" in chunk:
            time = chunk.pop("time_ms")
            for name, least in (("first_ms", np.minimum), ("last_ms", np.maximum)):
                runs[name] = unit_arrays.reduced(least, time, start)[order]
        chosen = {"unit", *(name for one in self.choices.values() for name in one.columns)}
        values = {name: own.of(chunk, unit, lengths) for name, own in self.choices.items()}
        rows = {name: column for name, column in chunk.items() if name not in chosen} | values
        at = _ranges(start[order], lengths[order])
        edges = np.searchsorted(np.sort(block), np.arange(self.count + 1))
        row_edges = np.append(0, np.cumsum(lengths[order]))[edges]
        placed = Block(runs, {name: column[at] for name, column in rows.items()})
        return placed, edges.tolist(), row_edges.tolist()


def _starts(chunk: Columns, slot_ms: int) -> Places:
    """Return where each run begins."""
    columns = [chunk[name] for name in ("unit", *_KEPT) if name in chunk]
    if "time_ms" in chunk:
        columns.append(chunk["time_ms"] // slot_ms)
    changes = np.ones(len(chunk["unit"]), dtype=bool)
    changes[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return np.flatnonzero(changes)


def _ranges(start: Places, length: Places) -> Places:
    """Return the numbers from each start on, as many as its length says, one after the other."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))


class UnitBlocks:
    """All impressions of some units in blocks; none of the units of a block is in another."""

    def __init__(self, count: int, room: Room | None = None) -> None:
        self._runs, self._rows = Blocks(count, room), Blocks(count, room)

    def add(
        self, block: Block, runs: Sequence[int], rows: Sequence[int], without: Collection[str]
    ) -> None:
        """Keep placed impressions (`Scan.place`), without some columns of their rows."""
        columns = {name: own for name, own in block.rows.items() if name not in without}
        self._runs.add(block.runs, runs)
        self._rows.add(columns, rows)

    def each(self, work: Callable[[Block], Result], *columns: str) -> Iterator[Result]:
        """Give what the work returns for each block, of whose rows it reads some columns."""

        def of(number: int) -> Result:
            return work(Block(self._runs.read(number), self._rows.read(number, columns)))

        yield from in_threads(of, range(len(self._runs)))
        give_back()

    def close(self) -> None:
        """Forget the rows."""
        self._runs.close()
        self._rows.close()
        give_back()


class SpreadRows(NamedTuple):
    """All impressions of some units on other machines."""

    spread: Spread
    scan: Scan

    def each(self, work: Callable[[Block], Result], *columns: str) -> Iterator[Result]:
        """Give what the work returns for each block, which has all columns."""
        scan = self.scan
        yield from self.spread.each(lambda rows: work(scan.place(rows)[0]))


UnitRows = UnitBlocks | SpreadRows

Values = tuple[Column, ...]
"""Unit and value of each impression that has one, and its day where that is asked."""

PARTS = 16
"""Rows have this part of the limit of memory; the rest is for what is computed of them."""


@contextmanager
def unit_rows(
    engine: Engine, scan: Scan, values: Sequence[str] = ()
) -> Iterator[tuple[UnitRows, list[Values]]]:
    """Run a scan; give its rows, and the unit and the value of each impression that has one.

    Columns of values are not kept among the rows.
    """
    look = partial(_values, values, scan.dated)
    if isinstance(engine, SpreadEngine):
        with closing(engine.spread(scan.sql, "unit", scan.count)) as spread:
            rows = SpreadRows(spread, scan)
            yield rows, _together([*rows.each(look)] if values else [], values, scan.dated)
        return
    with closing(UnitBlocks(scan.count, scan.room)) as blocks:
        parts = []
        for chunk in cast(ArrayEngine, engine).chunks(scan.sql):
            block, of_runs, of_rows = scan.place(chunk)
            parts.append(look(block))
            blocks.add(block, of_runs, of_rows, without=values)
        yield blocks, _together(parts, values, scan.dated)


def room_of(options: EngineOptions) -> Room:
    """Return where rows are kept under the limit of memory of an experiment, and in its folder."""
    memory = Room().memory if options.memory is None else options.memory // PARTS
    return Room(memory, options.temp_directory)


def _values(names: Sequence[str], dated: bool, block: Block) -> list[Values]:
    """Return unit and value of the impressions of the period that have one, by column."""
    listed, runs = list[Values](), block.runs
    for name in names:
        rows = np.flatnonzero(block.rows[name] != NONE)
        run = block.run[rows]
        used = runs["in_period"][run]
        days = [runs["day"][run[used]]] if dated else []
        listed.append((runs["unit"][run[used]], block.rows[name][rows[used]], *days))
    return listed


def _together(parts: Sequence[Sequence[Values]], names: Sequence[str], dated: bool) -> list[Values]:
    """Return the values of all parts."""
    nothing = [np.zeros(0, kind) for kind in (np.int32, np.int64, np.int32)][: 2 + dated]
    return [
        tuple(map(np.concatenate, zip(nothing, *(part[i] for part in parts), strict=True)))
        for i in range(len(names))
    ]
