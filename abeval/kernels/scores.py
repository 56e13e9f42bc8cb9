"""GAUC and AUC by one sort of the scores: `units/gauc.sql` and `units/auc.sql`.

Impressions come in blocks of whole units, so that memory does not grow with the log. A block is
sorted by score once; ranks within units (GAUC) and against all clicked scores of the variant (AUC)
both follow from that order.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
Columns = Mapping[str, Whole]

GAUC_COLUMNS = (
    "unit_id",
    "c_impressions",
    "c_weighted_auc",
    "c_left_out_units",
    "c_left_out_impressions",
    "c_left_out_clicks",
)
AUC_COLUMNS = ("unit_id", "c_scored_units", "c_auc")


class Scored(NamedTuple):
    """Impressions of some units of one variant.

    Attributes:
        unit: Number of the unit, shape (impressions,).
        score: Of the served model, finite.
        click: 0 or 1.
    """

    unit: Whole
    score: Floats
    click: Whole


class UnitPairs(NamedTuple):
    """Each unit's impressions, clicks, and half-points its clicks win against its other scores.

    Attributes:
        unit: Number of the unit, ascending, shape (units,).
        impressions: All of them.
        clicks: The clicked ones.
        halves: Over pairs of a click and an impression without: 2 for a higher score, 1 for a tie.
    """

    unit: Whole
    impressions: Whole
    clicks: Whole
    halves: Whole


class Clicked(NamedTuple):
    """The scores of a variant's clicks.

    Attributes:
        score: Each once, ascending, shape (levels,).
        clicks: How many clicks have it.
    """

    score: Floats
    clicks: Whole


class Sorted(NamedTuple):
    """A block in the order of its scores.

    Attributes:
        block: Its columns, sorted by score.
        level: Place of each score among the different ones, shape (impressions,).
    """

    block: Scored
    level: Whole


def by_score(block: Scored) -> Sorted:
    """Sort a block by score; equal scores share a level.

    Example:
        >>> block = Scored(np.array([5, 5, 6]), np.array([0.2, 0.1, 0.2]), np.array([1, 0, 0]))
        >>> by_score(block).level.tolist()
        [0, 1, 1]
    """
    order = np.argsort(block.score)
    score = block.score[order]
    level = np.zeros(len(score), dtype=np.int64)
    np.cumsum(score[1:] != score[:-1], out=level[1:])
    return Sorted(Scored(block.unit[order], score, block.click[order]), level)


def unit_pairs(rows: Sorted) -> UnitPairs:
    """What `units/gauc.sql` counts for each unit.

    Example:
        >>> block = Scored(np.array([5, 5, 6]), np.array([0.2, 0.1, 0.2]), np.array([1, 0, 0]))
        >>> unit_pairs(by_score(block)).halves.tolist()
        [2, 0]
    """
    unit, click = rows.block.unit, rows.block.click
    if not len(unit):
        return UnitPairs(*(np.zeros(0, dtype=np.int64) for _ in UnitPairs._fields))
    first, bits = int(unit.min()), int(rows.level[-1]).bit_length() + 1
    # Unit, level and click in one number: a sort of numbers is many times one of rows.
    key = np.sort(((unit - first) << bits) | (rows.level << 1) | click)
    start = np.flatnonzero(np.diff(key >> bits, prepend=-1))
    clicked = key & 1
    hits = np.flatnonzero(clicked)
    without = np.concatenate([[0], np.cumsum(1 - clicked)])
    below = without[np.searchsorted(key, key[hits] - 1)]
    starts = np.searchsorted(start, hits, side="right") - 1
    won = below + without[hits] - 2 * without[start[starts]]
    halves = np.bincount(starts, weights=won, minlength=len(start)).astype(np.int64)
    impressions = np.diff(start, append=len(key))
    clicks = np.add.reduceat(clicked, start)
    return UnitPairs((key[start] >> bits) + first, impressions, clicks, halves)


def gauc_columns(pairs: UnitPairs) -> Columns:
    """The columns of `units/gauc.sql`."""
    n, p = pairs.impressions, pairs.clicks
    both = (p > 0) & (p < n)
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = pairs.halves / (2.0 * p * (n - p))
    weighted = np.where(both, 1e9 * n * auc, 0.0)
    return {
        "unit_id": pairs.unit,
        "c_impressions": np.where(both, n, 0),
        "c_weighted_auc": half_away(weighted),
        "c_left_out_units": np.where(both, 0, 1),
        "c_left_out_impressions": np.where(both, 0, n),
        "c_left_out_clicks": np.where(both, 0, p),
    }


class Contest(NamedTuple):
    """How the scores of one block stand against all clicked scores of the variant.

    Attributes:
        beaten: Half-points that a click of each level wins against the block's other impressions,
            shape (levels,).
        lost: Half-points that all clicks of the variant win against the other impressions of each
            unit of the block, shape (units,).
    """

    beaten: Whole
    lost: Whole


def contest(rows: Sorted, clicked: Clicked, units: Whole) -> Contest:
    """Set a block against the clicked scores of the whole variant.

    Args:
        rows: The block.
        clicked: The clicked scores.
        units: The block's units, ascending.

    Example:
        >>> block = Scored(np.array([5, 5, 6]), np.array([0.2, 0.1, 0.2]), np.array([1, 0, 0]))
        >>> clicked = Clicked(np.array([0.2]), np.array([1]))
        >>> contest(by_score(block), clicked, np.array([5, 6])).lost.tolist()
        [2, 1]
    """
    block = rows.block
    low = np.searchsorted(block.score, clicked.score, side="left")
    high = np.searchsorted(block.score, clicked.score, side="right")
    without = np.concatenate([[0], np.cumsum(1 - block.click)])
    # A step down at each clicked level: twice the clicks above a score, and those level with it.
    size = len(block.score) + 1
    steps = np.bincount(low, clicked.clicks, size) + np.bincount(high, clicked.clicks, size)
    above = 2.0 * clicked.clicks.sum() - np.cumsum(steps)[:-1]
    place = _places(units, block.unit)
    lost = np.bincount(place, np.where(block.click == 1, 0.0, above), len(units))
    return Contest(without[low] + without[high], lost.astype(np.int64))


def clicks_won(clicks: Scored, clicked: Clicked, beaten: Whole, units: Whole) -> Whole:
    """Half-points that each unit's clicks win against the whole variant, once all blocks are in.

    Args:
        clicks: The clicked impressions of a block.
        clicked: The clicked scores of the variant.
        beaten: Half-points that a click of each level wins, over all blocks.
        units: The block's units, ascending.
    """
    level = np.searchsorted(clicked.score, clicks.score)
    return np.bincount(_places(units, clicks.unit), beaten[level], len(units)).astype(np.int64)


def auc_columns(pairs: UnitPairs, halves: Whole, clicked: Clicked, beaten: Whole) -> Columns:
    """The columns of `units/auc.sql` for one variant; none without a click or without a miss.

    Args:
        pairs: All its units.
        halves: Half-points that a unit's impressions are part of: won by its clicks, and by any
            click against its other impressions.
        clicked: Its clicked scores.
        beaten: Half-points that a click of each level wins against all its other impressions.
    """
    positives = float(pairs.clicks.sum())
    negatives = float(pairs.impressions.sum() - pairs.clicks.sum())
    if not positives or not negatives:
        return {name: np.zeros(0, dtype=np.int64) for name in AUC_COLUMNS}
    won = sum(int(n) for n in (clicked.clicks * beaten).tolist())
    auc = float(won) / (2.0 * positives * negatives)
    units = len(pairs.unit)
    misses = pairs.impressions - pairs.clicks
    pseudo = auc + units * (
        halves / (2.0 * positives * negatives)
        - auc * (pairs.clicks / positives + misses / negatives)
    )
    return {
        "unit_id": pairs.unit,
        "c_scored_units": np.ones(units, dtype=np.int64),
        "c_auc": half_away(1e9 * pseudo),
    }


def half_away(values: Floats) -> Whole:
    """Round to whole numbers, halves away from zero, as SQL does.

    Example:
        >>> half_away(np.array([0.5, -1.5, 2.4])).tolist()
        [1, -2, 2]
    """
    whole = np.trunc(values)
    tied = np.abs(values - whole) == 0.5
    return np.where(tied, whole + np.sign(values), np.rint(values)).astype(np.int64)


def joined(parts: Iterable[UnitPairs]) -> UnitPairs:
    """The units of several blocks, which share none, in one."""
    listed = list(parts)
    return UnitPairs(*(np.concatenate(column) for column in zip(*listed, strict=True)))


def _places(units: Whole, unit: Whole) -> Whole:
    """Where each unit stands among ascending units, by a table that is as long as their range."""
    first = units[0] if len(units) else 0
    place = np.zeros(units[-1] - first + 1 if len(units) else 0, dtype=np.int64)
    place[units - first] = np.arange(len(units))
    return place[unit - first]
