"""One scan of impressions → rows of analysed units, block by block, for the kernels.

`row_pass.py` and `cuts.py` open it. An engine in this process hands over chunks, which are kept
here; one on other machines keeps the rows there, and the kernels run beside them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import (
    NONE,
    Block,
    Column,
    Placing,
    Result,
    Room,
    UnitBlocks,
    UnitRows,
)
from abeval.engines.protocol import ArrayEngine, Engine, Spread, SpreadEngine
from abeval.experiment.sections import EngineOptions

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
        """The impressions of analysed units, placed."""
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
    """Where rows are kept under the limit of memory of an experiment, and in its folder."""
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
    """The values of all parts."""
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
