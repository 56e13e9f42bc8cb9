"""Runs the score kernels over an experiment's impressions, block by block."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine
from abeval.kernels import scores
from abeval.kernels.scores import Clicked, Columns, Contest, Scored, UnitPairs, Whole
from abeval.sql import literal

BLOCK = 2_000_000
"""Impressions of a block, about: some 150 MB while it is worked on."""


class ScoreTables(NamedTuple):
    """What `units/gauc.sql` and `units/auc.sql` would return."""

    gauc: pd.DataFrame
    auc: pd.DataFrame


class _Block(NamedTuple):
    """What is kept of a block."""

    pairs: UnitPairs
    contest: Contest
    clicks: Scored


def score_tables(engine: ArrayEngine, variants: Sequence[str]) -> ScoreTables:
    """GAUC and AUC of every variant from one sort of `scored`.

    Args:
        engine: Holds `scored` (variant, unit_id, score, click).
        variants: Those of the experiment.
    """
    gauc: list[Columns] = []
    auc: list[Columns] = []
    for variant in variants:
        clicked = _clicked(engine, variant)
        beaten = np.zeros(len(clicked.score), dtype=np.int64)
        kept: list[tuple[UnitPairs, Whole, Scored]] = []
        for block in _in_blocks(engine, variant, clicked):
            beaten += block.contest.beaten
            kept.append((block.pairs, block.contest.lost, block.clicks))
        if not kept:
            continue
        gauc += [scores.gauc_columns(pairs) for pairs, _, _ in kept]
        halves = [
            lost + scores.clicks_won(clicks, clicked, beaten, pairs.unit)
            for pairs, lost, clicks in kept
        ]
        every = scores.joined(pairs for pairs, _, _ in kept)
        auc.append(scores.auc_columns(every, np.concatenate(halves), clicked, beaten))
    return ScoreTables(_frame(gauc, scores.GAUC_COLUMNS), _frame(auc, scores.AUC_COLUMNS))


def _in_blocks(engine: ArrayEngine, variant: str, clicked: Clicked) -> Iterator[_Block]:
    """Work on the blocks of a variant, two at a time; the engine is asked by one of them."""
    asking = Lock()

    def work(within: str) -> _Block:
        with asking:
            found = engine.arrays(f"select unit_id, score, click from scored where {within}")
        columns = _wholes(found["unit_id"]), _doubles(found["score"]), _wholes(found["click"])
        return _of_block(Scored(*columns), clicked)

    with ThreadPoolExecutor(2) as pool:
        try:
            yield from pool.map(work, list(_ranges(engine, variant)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _of_block(block: Scored, clicked: Clicked) -> _Block:
    rows = scores.by_score(block)
    pairs = scores.unit_pairs(rows)
    hits = np.flatnonzero(rows.block.click)
    clicks = Scored(rows.block.unit[hits], rows.block.score[hits], rows.block.click[hits])
    return _Block(pairs, scores.contest(rows, clicked, pairs.unit), clicks)


def _clicked(engine: ArrayEngine, variant: str) -> Clicked:
    found = engine.arrays(
        "select score, cast(count(*) as bigint) as clicks from scored "
        f"where click = 1 and variant = {literal(variant)} group by score order by score"
    )
    return Clicked(_doubles(found["score"]), _wholes(found["clicks"]))


def _ranges(engine: ArrayEngine, variant: str) -> Iterator[str]:
    """Conditions that cut a variant into blocks of whole units."""
    mine = f"variant = {literal(variant)}"
    ((rows, first, last),) = engine.rows(
        f"select count(*), min(unit_id), max(unit_id) from scored where {mine}"
    )
    count, low, high = (int(value or 0) for value in (rows, first, last))
    if not count:
        return
    step = -(-(high - low + 1) // -(-count // BLOCK))
    for start in range(low, high + 1, step):
        yield f"{mine} and unit_id >= {start} and unit_id < {start + step}"


def _wholes(column: NDArray[np.generic]) -> Whole:
    return np.asarray(column, dtype=np.int64)


def _doubles(column: NDArray[np.generic]) -> NDArray[np.float64]:
    # -0.0 equals 0.0 and must sort with it.
    return np.asarray(column, dtype=np.float64) + 0.0


def _frame(parts: Sequence[Columns], columns: Sequence[str]) -> pd.DataFrame:
    merged = {
        name: np.concatenate([np.zeros(0, dtype=np.int64), *(part[name] for part in parts)])
        for name in columns
    }
    return pd.DataFrame({"unit_id": merged["unit_id"], "in_period": True, **merged})
