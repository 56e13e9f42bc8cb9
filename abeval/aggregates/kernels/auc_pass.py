"""Runs the score kernels over an experiment's impressions, block by block.

`metric_queries.py` shows the impressions as `scored`, and uses the two tables in place of the
queries `units/gauc` and `units/auc`, where the engine has arrays.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels import auc
from abeval.aggregates.kernels.auc import Clicked, Columns, Floats, Placed, Scored, UnitPairs, Whole
from abeval.aggregates.kernels.blocks import Blocks
from abeval.engines.protocol import ArrayEngine, whole
from abeval.engines.sql import numbered
from abeval.threads import in_threads

BLOCK = 1_000_000
"""Impressions of a block, about: some 100 MB while it is worked on."""


_TYPES = ("i8", "f8")
"""Columns of a block: 2 × unit + click, and the score."""


class ScoreTables(NamedTuple):
    """What `units/gauc.sql` and `units/auc.sql` would return."""

    gauc: Mapping[str, NDArray[np.generic]]
    auc: Mapping[str, NDArray[np.generic]]


class _UnitBlocks(NamedTuple):
    """Ranges of unit numbers that hold about `BLOCK` impressions of a variant each.

    Attributes:
        per_variant: How many.
        first: The smallest number of a unit.
        size: Numbers of each range.
    """

    per_variant: int
    first: int
    size: int

    @classmethod
    def of(cls, engine: ArrayEngine, variants: int) -> "_UnitBlocks":
        ((rows, first, last),) = engine.rows(
            "select count(*), min(unit_id), max(unit_id) from scored"
        )
        count = -(-max(whole(rows), 1) // (BLOCK * variants))
        numbers = whole(last) - whole(first) + 1
        return cls(count, whole(first), -(-numbers // count))


class _Block(NamedTuple):
    """What the second step needs of a block."""

    pairs: UnitPairs
    lost: Whole
    clicks: Placed


class _Tables(NamedTuple):
    """The rows of one variant."""

    gauc: list[Columns]
    auc: Columns


def score_tables(
    engine: ArrayEngine, variants: Sequence[str], folder: str | None = None
) -> ScoreTables:
    """GAUC and AUC of every variant from one pass over `scored`.

    Args:
        engine: Holds `scored` (variant, unit_id, score, click).
        variants: Those of the experiment.
        folder: Where to keep what does not fit into memory.
    """
    units = _UnitBlocks.of(engine, len(variants))
    with closing(Blocks(units.per_variant * len(variants), _TYPES, folder)) as blocks:
        clicked = _read(engine, variants, units, blocks)
        numbers = np.arange(len(blocks)).reshape(len(variants), -1).tolist()
        tables = [_tables(blocks, own, of) for own, of in zip(numbers, clicked, strict=True)]
    return ScoreTables(
        _table([part for table in tables for part in table.gauc], auc.GAUC_COLUMNS),
        _table([table.auc for table in tables], auc.AUC_COLUMNS),
    )


def _read(
    engine: ArrayEngine, variants: Sequence[str], units: _UnitBlocks, blocks: Blocks
) -> list[Clicked]:
    """Put every impression into its block; the scores of each variant's clicks."""
    columns = f"{numbered('variant', variants)} as variant_number, unit_id, score, click"
    clicked: list[list[Floats]] = [[np.zeros(0)] for _ in variants]
    for chunk in engine.chunks(f"select {columns} from scored"):
        number, unit = _wholes(chunk["variant_number"]), _wholes(chunk["unit_id"])
        rows = Scored(unit, _doubles(chunk["score"]), _wholes(chunk["click"]))
        block = number * units.per_variant + (unit - units.first) // units.size
        blocks.add(block, 2 * unit + rows.click, rows.score)
        hits = np.flatnonzero(rows.click)
        for i, listed in enumerate(clicked):
            listed.append(rows.score[hits[number[hits] == i]])
    return [Clicked(np.concatenate(listed)) for listed in clicked]


def _tables(blocks: Blocks, numbers: Sequence[int], clicked: Clicked) -> _Tables:
    """The rows of one variant, from its blocks."""
    misses, adding = np.zeros(clicked.places, dtype=np.int64), Lock()

    def work(number: int) -> _Block:
        rows = auc.placed(_scored(*blocks.read(number)), clicked)
        own = auc.misses_at(rows, clicked)
        with adding:
            np.add(misses, own, out=misses)
        pairs = auc.unit_pairs(rows)
        lost = auc.halves_lost(rows, clicked, pairs.unit)
        return _Block(pairs, lost, auc.clicks_of(rows))

    done = in_threads(work, numbers)
    beaten = auc.beaten_by(misses)
    halves = [b.lost + auc.halves_won(b.clicks, beaten, b.pairs.unit) for b in done]
    every = auc.joined(block.pairs for block in done)
    return _Tables(
        [auc.gauc_columns(block.pairs) for block in done],
        auc.auc_columns(every, np.concatenate(halves), clicked, beaten),
    )


def _scored(code: NDArray[np.generic], score: NDArray[np.generic]) -> Scored:
    wholes = _wholes(code)
    return Scored(wholes >> 1, np.asarray(score, dtype=np.float64), wholes & 1)


def _wholes(column: NDArray[np.generic]) -> Whole:
    return np.asarray(column, dtype=np.int64)


def _doubles(column: NDArray[np.generic]) -> Floats:
    # The negative zero equals the other one, and would sort apart from it.
    return np.asarray(column, dtype=np.float64) + 0.0


def _table(parts: Sequence[Columns], columns: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    merged = {
        name: np.concatenate([np.zeros(0, dtype=np.int64), *(part[name] for part in parts)])
        for name in columns
    }
    in_period = np.ones(len(merged["unit_id"]), dtype=bool)
    return {"unit_id": merged["unit_id"], "in_period": in_period, **merged}
