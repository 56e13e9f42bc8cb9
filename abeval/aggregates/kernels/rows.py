"""Keep impressions of units as narrow columns by block: what the kernels compute on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple, Protocol, TypeVar
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine, Engine, Spread, SpreadEngine
from abeval.experiment.sections import EngineOptions
from abeval.logs.unit_arrays import Places, narrow
from abeval.threads import give_back, in_threads

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

    runs: Mapping[str, Column]
    rows: Mapping[str, Column]

    @cached_property
    def run(self) -> Places:
        """Return the number of each impression's run."""
        return self.of_run(np.arange(len(self.runs["length"])))

    def of_run(self, column: Column) -> Column:
        """Return the value of each impression's run."""
        return np.repeat(column, self.runs["length"])


class HashIndex:
    """Finds the places of hashes among sorted ones.

    A table says where the hashes of each prefix begin, so that few are compared.

    Args:
        known: Hashes of 63 bits, each once, ascending.

    Example:
        >>> index = HashIndex(np.array([5, 1 << 62]))
        >>> index.places(np.array([1 << 62, 6, 5])).tolist()
        [1, -1, 0]
    """

    def __init__(self, known: NDArray[np.int64]) -> None:
        bits = len(known).bit_length() + 1
        self._shift = 63 - bits
        prefixes = np.arange(1 << bits, dtype=np.int64) << self._shift
        self._first = np.searchsorted(known, prefixes).astype(np.int32)
        self._known = np.append(known, np.iinfo(np.int64).max)

    def places(self, hashes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the place of each hash, -1 where it is not among those that are known."""
        place = self._first[hashes >> self._shift]
        behind = np.flatnonzero(self._known[place] < hashes)
        while len(behind):
            place[behind] += 1
            behind = behind[self._known[place[behind]] < hashes[behind]]
        return np.where(self._known[place] == hashes, place, np.int32(-1))


class Choice(NamedTuple):
    """A column that is another one for each kind of unit.

    Attributes:
        columns: Those of a chunk that it may be.
        of_unit: Which of them each unit has, -1 for none.
        none: The value then.
    """

    columns: Sequence[str]
    of_unit: NDArray[np.int16]
    none: float = NONE


class Placed(NamedTuple):
    """Impressions in the order of their blocks, and where those begin, in runs and in rows."""

    block: Block
    runs: Sequence[int]
    rows: Sequence[int]

    def without(self, names: Sequence[str]) -> "Placed":
        """Return the same without some columns of the rows."""
        rows = {name: column for name, column in self.block.rows.items() if name not in names}
        return self._replace(block=Block(self.block.runs, rows))


class UnitRows(Protocol):
    """All impressions of some units, in blocks; none of the units of a block is in another."""

    def each(self, work: Callable[[Block], Result], *columns: str) -> Iterator[Result]:
        """Give what the work returns for each block, here or on another machine, one at a time.

        Args:
            work: It gets a block.
            columns: Those of its rows that the work reads, where there are such.
        """


@dataclass(frozen=True)
class Placing:
    """Puts impressions in the order of the blocks of their units.

    Attributes:
        hashes: Of the analysed units, ascending; impressions of others are left out.
        count: Of blocks.
        slot_ms: A run ends where time enters another slot of this length.
        choices: Further columns of the rows.
    """

    hashes: NDArray[np.int64]
    count: int
    slot_ms: int = 1
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @cached_property
    def _index(self) -> HashIndex:
        return HashIndex(self.hashes)

    def place(self, chunk: Mapping[str, Column]) -> Placed:
        """Put the impressions of analysed units in the order of their blocks.

        Args:
            chunk: Columns `unit` (hash), `time_ms`, those of a block, and those of `choices`.
        """
        start = _starts(chunk, self.slot_ms)
        place = self._index.places(chunk["unit"][start])
        known = np.flatnonzero(place >= 0)
        block = place[known] * np.int64(self.count) // max(len(self.hashes), 1)
        order = known[np.argsort(block.astype(np.uint16), kind="stable")]
        lengths = np.diff(start, append=len(chunk["unit"]))[order]
        runs = {"unit": place[order]}
        runs |= {name: chunk[name][start[order]] for name in _KEPT if name in chunk}
        if "time_ms" in chunk and len(start):
            for name, least in (("first_ms", np.minimum), ("last_ms", np.maximum)):
                runs[name] = least.reduceat(chunk["time_ms"], start)[order]
        columns = dict(chunk)
        for name, choice in self.choices.items():
            columns[name] = _chosen(chunk, choice, place, np.diff(start, append=len(chunk["unit"])))
        chosen = [name for one in self.choices.values() for name in one.columns]
        at = _ranges(start[order], lengths)
        rows = {
            name: column[at]
            for name, column in columns.items()
            if name not in (*_KEPT, "unit", "time_ms", *chosen)
        }
        edges = np.searchsorted(np.sort(block), np.arange(self.count + 1))
        row_edges = np.append(0, np.cumsum(lengths))[edges]
        runs["length"] = lengths.astype(np.int32)
        return Placed(Block(runs, rows), edges.tolist(), row_edges.tolist())


class UnitBlocks:
    """Blocks of placed impressions in this process, which are added in any order.

    Args:
        count: Of blocks.
        room: Where to keep them.
    """

    def __init__(self, count: int, room: Room | None = None) -> None:
        self._runs, self._rows = Blocks(count, room), Blocks(count, room)
        self._names: tuple[Sequence[str], Sequence[str]] = ((), ())

    def add(self, placed: Placed) -> None:
        """Keep impressions."""
        runs, rows = placed.block.runs, placed.block.rows
        self._names = tuple(runs), tuple(rows)
        self._runs.add([*runs.values()], placed.runs)
        self._rows.add([*rows.values()], placed.rows)

    def each(self, work: Callable[[Block], Result], *columns: str) -> Iterator[Result]:
        """Give what the work returns for each block, of which it reads some columns."""
        numbers = range(len(self._runs) if self._names[0] else 0)
        yield from in_threads(lambda number: work(self._read(number, columns)), numbers)
        give_back()

    def _read(self, number: int, columns: Sequence[str]) -> Block:
        runs, rows = self._names
        named = [name for name in rows if name in columns]
        read = self._rows.read(number, [rows.index(name) for name in named]) if named else []
        return Block(
            dict(zip(runs, self._runs.read(number, range(len(runs))), strict=True)),
            dict(zip(named, read, strict=True)),
        )

    def close(self) -> None:
        """Forget the rows."""
        self._runs.close()
        self._rows.close()
        give_back()


def _starts(chunk: Mapping[str, Column], slot_ms: int) -> Places:
    """Return where each run begins."""
    changes = np.ones(len(chunk["unit"]), dtype=bool)
    columns = [chunk[name] for name in ("unit", *_KEPT) if name in chunk]
    if "time_ms" in chunk:
        columns.append(chunk["time_ms"] // slot_ms)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _chosen(
    chunk: Mapping[str, Column], choice: Choice, unit: NDArray[np.int32], length: Places
) -> Column:
    """Return the value of each row from the column of its unit; any where the unit is not known."""
    kind = choice.of_unit[unit]
    values = chunk[choice.columns[0]].copy()
    others: list[Column | float] = [*(chunk[name] for name in choice.columns[1:]), choice.none]
    for other, number in zip(others, (*range(1, len(others)), -1), strict=True):
        own = kind == number
        if own.any():
            np.copyto(values, other, where=np.repeat(own, length))
    return values


def _ranges(start: Places, length: Places) -> Places:
    """Return the numbers from each start on, as many as its length says, one after the other."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))


Values = tuple[NDArray[Any], ...]
"""Unit and value of each impression that has one, and its day where that is asked."""

Columns = Mapping[str, Column]

PARTS = 16
"""Rows have this part of the limit of memory; the rest is for what is computed of them."""


class Scan(NamedTuple):
    """A scan of impressions.

    Attributes:
        sql: Its query: `unit` (hash), and what `placing` and `numbered` need; nothing null.
        placing: Of the analysed units.
        numbered: What becomes of the columns before they are placed.
        room: Where to keep the rows.
        dated: Whether values have a day.
    """

    sql: str
    placing: Placing
    numbered: Callable[[Columns], Columns] = dict[str, Column]
    room: Room | None = None
    dated: bool = False

    def block(self, columns: Columns) -> Block:
        """Return the impressions of analysed units, placed."""
        return self.placing.place(self.numbered(columns)).block


@contextmanager
def unit_rows(
    engine: Engine, scan: Scan, values: Sequence[str] = ()
) -> Iterator[tuple[UnitRows, list[Values]]]:
    """Run a scan; give its rows, and the unit and the value of each impression that has one.

    Args:
        engine: It runs the query.
        scan: The query, and the units.
        values: Columns of values, which are not kept among the rows.
    """
    look = partial(_values, values, scan.dated)
    if isinstance(engine, SpreadEngine):
        with closing(engine.spread(scan.sql, "unit", scan.placing.count)) as spread:
            rows = _SpreadRows(spread, scan)
            yield rows, _together([*rows.each(look)] if values else [], values, scan.dated)
        return
    if not isinstance(engine, ArrayEngine):
        raise TypeError(f"{type(engine).__name__} has neither chunks nor parts of rows")
    with closing(UnitBlocks(scan.placing.count, scan.room)) as blocks:
        parts = []
        for chunk in engine.chunks(scan.sql):
            placed = scan.placing.place(scan.numbered(chunk))
            parts.append(look(placed.block))
            blocks.add(placed.without(values))
        yield blocks, _together(parts, values, scan.dated)


def room_of(options: EngineOptions) -> Room:
    """Return where rows are kept under the limit of memory of an experiment, and in its folder."""
    if options.memory is None:
        return Room(folder=options.temp_directory)
    return Room(options.memory // PARTS, options.temp_directory)


def _values(names: Sequence[str], dated: bool, block: Block) -> list[Values]:
    """Unit and value of the impressions of the period that have one."""
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


class _SpreadRows(NamedTuple):
    """Impressions on other machines."""

    spread: Spread
    scan: Scan

    def each(self, work: Callable[[Block], Result], *columns: str) -> Iterator[Result]:
        """Give what the work returns for each block, which has all columns."""
        scan = self.scan
        yield from self.spread.each(lambda rows: work(scan.block(rows)))
