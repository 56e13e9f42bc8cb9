"""Impressions of units as narrow columns by block: what the kernels of rows compute on.

Consecutive impressions of one unit, request and day form a run, so that what they share is kept
once. `unit_rows.py` places what a scan returns, and hands each block to the kernels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from abeval.logs.unit_arrays import Places
from abeval.threads import give_back, in_threads

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
        """The number of each impression's run."""
        return self.of_run(np.arange(len(self.runs["length"])))

    def of_run(self, column: Column) -> Column:
        """The value of each impression's run."""
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
        """The place of each hash, -1 where it is not among those that are known."""
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
        """The same without some columns of the rows."""
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
    """Where each run begins."""
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
    """The value of each row from the column of its unit; any where the unit is not known."""
    kind = choice.of_unit[unit]
    values = chunk[choice.columns[0]].copy()
    others: list[Column | float] = [*(chunk[name] for name in choice.columns[1:]), choice.none]
    for other, number in zip(others, (*range(1, len(others)), -1), strict=True):
        own = kind == number
        if own.any():
            np.copyto(values, other, where=np.repeat(own, length))
    return values


def _ranges(start: Places, length: Places) -> Places:
    """The numbers from each start on, as many as its length says, one after the other."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))
