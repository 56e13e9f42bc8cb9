"""GAUC and AUC by one sort of the scores: `units/gauc.sql` and `units/auc.sql`.

Impressions come in blocks of whole units, so that memory does not grow with the log. Only the place
of a score among the clicked scores of its variant counts: it orders the impression against the
clicks of its own unit (GAUC) and against all clicks (AUC).

`auc_pass.py` hands it arrays of units, scores and clicks, and puts its columns together.
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


class Placed(NamedTuple):
    """Impressions by their places among the clicked scores, in the order of their scores.

    Attributes:
        unit: Number of the unit, shape (impressions,).
        place: 2 i + 1 where the score is clicked score i, 2 i between that and the one below it.
        click: 0 or 1.
    """

    unit: Whole
    place: Whole
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


class Clicked:
    """The scores of a variant's clicks.

    Args:
        scores: One for each click, in any order.

    Attributes:
        score: Each once, ascending, shape (levels,).
        clicks: How many clicks have it.
        lost_at: Half-points that all clicks together win against an impression at each place,
            shape (places,).

    Example:
        >>> clicked = Clicked(np.array([0.3, 0.1, 0.3]))
        >>> clicked.score.tolist(), clicked.clicks.tolist(), clicked.places
        ([0.1, 0.3], [1, 2], 5)
        >>> clicked.lost_at.tolist()
        [6, 5, 4, 2, 0]
    """

    def __init__(self, scores: Floats) -> None:
        self.score, self.clicks = np.unique(scores, return_counts=True)
        below = np.concatenate([[0], np.cumsum(self.clicks)])
        self.lost_at = np.empty(self.places, dtype=np.int64)
        self.lost_at[0::2] = 2 * (below[-1] - below)
        self.lost_at[1::2] = 2 * below[-1] - below[1:] - below[:-1]

    @property
    def places(self) -> int:
        """How many places there are: at, below and above every level."""
        return 2 * len(self.score) + 1


def placed(block: Scored, clicked: Clicked) -> Placed:
    """Find the place of every impression of a block.

    Example:
        >>> block = Scored(np.array([5, 5, 6]), np.array([0.2, 0.1, 0.3]), np.array([1, 0, 0]))
        >>> placed(block, Clicked(np.array([0.2]))).place.tolist()
        [0, 1, 2]
    """
    order = np.argsort(block.score)
    score = block.score[order]
    place = 2 * np.searchsorted(clicked.score, score)
    if len(clicked.score):
        place += clicked.score[np.minimum(place // 2, len(clicked.score) - 1)] == score
    return Placed(block.unit[order], place, block.click[order])


def unit_pairs(rows: Placed) -> UnitPairs:
    """What `units/gauc.sql` counts for each unit.

    Example:
        >>> rows = Placed(np.array([5, 5, 6]), np.array([1, 0, 1]), np.array([1, 0, 0]))
        >>> unit_pairs(rows).halves.tolist()
        [2, 0]
    """
    unit = rows.unit
    if not len(unit):
        return UnitPairs(*(np.zeros(0, dtype=np.int64) for _ in UnitPairs._fields))
    first, bits = int(unit.min()), int(rows.place.max()).bit_length() + 1
    # Unit, place and click in one number: a sort of numbers is many times one of rows.
    key = np.sort(((unit - first) << bits) | (rows.place << 1) | rows.click)
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


def misses_at(rows: Placed, clicked: Clicked) -> Whole:
    """How many impressions without a click stand at each place, shape (places,)."""
    return np.bincount(rows.place[rows.click == 0], minlength=clicked.places)


def halves_lost(rows: Placed, clicked: Clicked, units: Whole) -> Whole:
    """Half-points that all clicks of the variant win against each unit's other impressions.

    Args:
        rows: A block.
        clicked: The clicked scores of the variant.
        units: The block's units, ascending.

    Example:
        >>> rows = Placed(np.array([5, 5, 6]), np.array([1, 0, 1]), np.array([1, 0, 0]))
        >>> halves_lost(rows, Clicked(np.array([0.2])), np.array([5, 6])).tolist()
        [2, 1]
    """
    lost = clicked.lost_at[rows.place] * (1 - rows.click)
    return np.bincount(_numbers(units, rows.unit), lost, len(units)).astype(np.int64)


def beaten_by(misses: Whole) -> Whole:
    """Half-points that a click of each level wins against the variant's other impressions.

    Args:
        misses: How many of them stand at each place, shape (places,).

    Example:
        >>> beaten_by(np.array([3, 1, 2])).tolist()
        [7]
    """
    below = np.cumsum(misses)
    return np.asarray(2 * below[0:-1:2] + misses[1::2])


def clicks_of(rows: Placed) -> Placed:
    """The clicked impressions of a block."""
    hits = np.flatnonzero(rows.click)
    return Placed(rows.unit[hits], rows.place[hits], rows.click[hits])


def halves_won(clicks: Placed, beaten: Whole, units: Whole) -> Whole:
    """Half-points that each unit's clicks win against the whole variant, once all blocks are in.

    Args:
        clicks: The clicked impressions of a block.
        beaten: Half-points that a click of each level wins.
        units: The block's units, ascending.
    """
    won = beaten[clicks.place // 2]
    return np.bincount(_numbers(units, clicks.unit), won, len(units)).astype(np.int64)


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


def _numbers(units: Whole, unit: Whole) -> Whole:
    """Where each unit stands among ascending units, by a table that is as long as their range."""
    first = units[0] if len(units) else 0
    number = np.zeros(units[-1] - first + 1 if len(units) else 0, dtype=np.int64)
    number[units - first] = np.arange(len(units))
    return number[unit - first]
