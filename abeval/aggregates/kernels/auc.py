"""GAUC and AUC by sorts of whole numbers: `units/gauc` and `units/auc`.

Scores become *levels*: whole numbers that order the impressions of a variant as their scores do.
Scores of a few decimals are whole multiples of one fraction, and those are the levels. Of other
scores only the place among the clicked scores of the variant counts, for it orders an impression
against the clicks of its own unit (GAUC) and against all clicks (AUC).

`row_pass.py` hands it the blocks, and shows a chunk to `Scores` when it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import Block, UnitBlocks
from abeval.logs.grouping import Floats, Whole, added, half_away, heads
from abeval.logs.unit_arrays import NO_DAY, UnitDays
from abeval.threads import in_threads

_DIGITS = 7
"""The most decimals of scores that are levels themselves."""

_LEVELS = 1 << 22
"""The most such levels: tables of them stay near the processor."""

Arms = NDArray[np.int16]


class Levels(Protocol):
    """Turns scores into levels; those of a variant begin where those of the one before end."""

    @property
    def edges(self) -> Sequence[int]:
        """Where the levels of each variant begin, and the end."""

    def of(self, score: Floats, arm: Arms) -> Whole:
        """The level of each score of a variant."""


class Decimals(NamedTuple):
    """Levels of scores with so many decimals, from the lowest to the highest.

    Example:
        >>> levels = Decimals(1, -5, 20, arms=2)
        >>> levels.of(np.array([-0.5, 0.3, 0.3]), np.array([0, 0, 1])).tolist()
        [0, 8, 28]
    """

    digits: int
    lowest: int
    size: int
    arms: int

    @property
    def edges(self) -> Sequence[int]:
        """Where the levels of each variant begin, and the end."""
        return range(0, self.size * self.arms + 1, self.size)

    def of(self, score: Floats, arm: Arms) -> Whole:
        """The level of each score of a variant."""
        level = np.rint(score * 10.0**self.digits).astype(np.int64)
        level += arm * np.int64(self.size) - self.lowest
        return level


class AmongClicked(NamedTuple):
    """Levels by place among the clicked scores of a variant.

    Level 2 i + 1 is that of clicked score i, 2 i lies between it and the one below.

    Attributes:
        clicked: Of each variant, each score once, ascending.

    Example:
        >>> levels = AmongClicked([np.array([0.2]), np.array([0.1, 0.3])])
        >>> levels.of(np.array([0.2, 0.1, 0.3]), np.array([0, 1, 1])).tolist()
        [1, 4, 6]
    """

    clicked: Sequence[Floats]

    @property
    def edges(self) -> Sequence[int]:
        """Where the levels of each variant begin, and the end."""
        return [0, *np.cumsum([2 * len(scores) + 1 for scores in self.clicked]).tolist()]

    def of(self, score: Floats, arm: Arms) -> Whole:
        """The level of each score of a variant."""
        level = np.empty(len(score), dtype=np.int64)
        for number, known in enumerate(self.clicked):
            own = np.flatnonzero(arm == number)
            # Sorted scores are found several times sooner.
            own = own[np.argsort(score[own])]
            place = np.searchsorted(known, score[own])
            met = np.append(known, np.nan)[place] == score[own]
            level[own] = 2 * place + met + self.edges[number]
        return level


@dataclass
class Scores:
    """What is known of the scores of the period, chunk by chunk.

    Attributes:
        arms: How many variants there are.
    """

    arms: int
    _digits: int | None = field(init=False, default=0)
    _ends: tuple[float, float] = field(init=False, default=(np.inf, -np.inf))
    _clicked: list[list[Floats]] = field(init=False)

    def __post_init__(self) -> None:
        """Begin without a score."""
        self._clicked = [[np.zeros(0)] for _ in range(self.arms)]

    def add(self, block: Block, arm: Arms) -> None:
        """Look at some impressions; `arm` is the variant of each unit."""
        rows = scored(block, arm)
        if not len(rows.score):
            return
        self._ends = (
            min(self._ends[0], float(rows.score.min())),
            max(self._ends[1], float(rows.score.max())),
        )
        self._digits = _digits(rows.score, self._digits)
        hits = np.flatnonzero(rows.click)
        for number, listed in enumerate(self._clicked):
            listed.append(rows.score[hits[rows.arm[hits] == number]])

    @property
    def levels(self) -> Levels:
        """The levels of all scores that were shown."""
        if self._digits is not None and self._ends[0] <= self._ends[1]:
            low, high = (round(end * 10.0**self._digits) for end in self._ends)
            if (high - low + 1) * self.arms <= _LEVELS:
                return Decimals(self._digits, low, high - low + 1, self.arms)
        return AmongClicked([np.unique(np.concatenate(listed)) for listed in self._clicked])


def _digits(score: Floats, least: int | None) -> int | None:
    """The fewest decimals that all scores have, from `least` on; None for no such number."""
    for digits in range(_DIGITS if least is None else least, _DIGITS):
        for some in (score[:1000], score):
            if not (np.rint(some * 10.0**digits) / 10.0**digits == some).all():
                break
        else:
            return digits
    return None


class Scored(NamedTuple):
    """The scored impressions of the period.

    Attributes:
        unit: Place of the unit, shape (impressions,).
        arm: Its variant.
        score: Of the served model, finite.
        click: Whether it was clicked.
    """

    unit: NDArray[np.int32]
    arm: Arms
    score: Floats
    click: NDArray[np.bool_]


def scored(block: Block, arm: Arms) -> Scored:
    """The scored impressions of a block; `arm` is the variant of each unit."""
    score = block.rows["score"]
    used = block.of_run("in_period") & ~np.isnan(score)
    rows = slice(None) if used.all() else np.flatnonzero(used)
    unit = block.of_run("unit")[rows]
    # The negative zero equals the other one, and would sort apart from it.
    return Scored(unit, arm[unit], score[rows] + 0.0, block.rows["click"][rows])


class UnitPairs(NamedTuple):
    """Each unit's impressions, clicks, and half-points its clicks win against its other scores.

    Attributes:
        unit: Place of the unit, ascending, shape (units,).
        impressions: All of them.
        clicks: The clicked ones.
        halves: Over pairs of a click and an impression without: 2 for a higher score, 1 for a tie.
    """

    unit: NDArray[np.int32]
    impressions: Whole
    clicks: Whole
    halves: Whole


def unit_pairs(unit: NDArray[np.int32], level: Whole, click: NDArray[np.bool_]) -> UnitPairs:
    """What `units/gauc` counts for each unit.

    Example:
        >>> unit, level = np.array([5, 5, 6]), np.array([1, 0, 1])
        >>> unit_pairs(unit, level, np.array([True, False, False])).halves.tolist()
        [2, 0]
    """
    if not len(unit):
        nothing = np.zeros(0, dtype=np.int64)
        return UnitPairs(unit, nothing, nothing, nothing)
    first, bits = int(unit.min()), int(level.max()).bit_length() + 1
    # Unit, level and click in one number: a sort of numbers is many times one of rows.
    key = np.sort(((unit - first).astype(np.int64) << bits) | (level << 1) | click)
    start = heads(key >> bits)
    clicked = key & 1
    hits = np.flatnonzero(clicked)
    without = np.concatenate([[0], np.cumsum(1 - clicked)])
    below = without[np.searchsorted(key, key[hits] - 1)]
    starts = np.searchsorted(start, hits, side="right") - 1
    won = below + without[hits] - 2 * without[start[starts]]
    halves = np.bincount(starts, weights=won, minlength=len(start)).astype(np.int64)
    impressions = np.diff(start, append=len(key))
    clicks = added(clicked, start)
    return UnitPairs(((key[start] >> bits) + first).astype(np.int32), impressions, clicks, halves)


def gauc_of(pairs: UnitPairs) -> UnitDays:
    """The columns of `units/gauc`."""
    n, p = pairs.impressions, pairs.clicks
    both = (p > 0) & (p < n)
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = pairs.halves / (2.0 * p * (n - p))
    weighted = np.where(both, 1e9 * n * auc, 0.0)
    return _of_period(
        pairs.unit,
        c_impressions=np.where(both, n, 0),
        c_weighted_auc=half_away(weighted),
        c_left_out_units=np.where(both, 0, 1),
        c_left_out_impressions=np.where(both, 0, n),
        c_left_out_clicks=np.where(both, 0, p),
    )


def _of_period(unit: NDArray[np.int32], **columns: Whole) -> UnitDays:
    days = np.full(len(unit), NO_DAY, dtype=np.int32)
    return UnitDays(unit, np.ones(len(unit), dtype=bool), days, columns)


class ScoreSums(NamedTuple):
    """What `units/gauc` and `units/auc` return."""

    gauc: UnitDays
    auc: UnitDays


def score_sums(blocks: UnitBlocks, arm: Arms, scores: Scores) -> ScoreSums:
    """GAUC and AUC of the units of some blocks.

    Args:
        blocks: With `click` and `score`, NaN where there is none.
        arm: The variant of each unit.
        scores: After all of them.
    """
    levels = scores.levels
    counts, adding = np.zeros((levels.edges[-1], 2), dtype=np.int64), Lock()

    def paired(number: int) -> UnitPairs:
        rows = scored(blocks.read(number), arm)
        level = levels.of(rows.score, rows.arm)
        own = np.bincount(2 * level + rows.click, minlength=counts.size)
        with adding:
            np.add(counts, own.reshape(counts.shape), out=counts)
        return unit_pairs(rows.unit, level, rows.click)

    pairs = UnitPairs(*map(np.concatenate, zip(*in_threads(paired, blocks), strict=True)))
    worth = _worth(counts, levels.edges)

    def won(number: int) -> tuple[int, Whole]:
        rows = scored(blocks.read(number), arm)
        halves = worth[2 * levels.of(rows.score, rows.arm) + rows.click]
        first = int(rows.unit.min()) if len(rows.unit) else 0
        return first, np.bincount(rows.unit - first, halves).astype(np.int64)

    halves = np.zeros(len(arm), dtype=np.int64)
    for first, own in in_threads(won, blocks):
        halves[first : first + len(own)] += own
    return ScoreSums(gauc_of(pairs), auc_of(pairs, halves[pairs.unit], arm, counts, levels.edges))


def _worth(counts: Whole, edges: Sequence[int]) -> Floats:
    """Half-points of an impression against all others of its variant, by level and click.

    A click wins against those without below it and half against those at its level; against one
    without, all clicks win likewise.
    """
    worth = np.empty(counts.shape, dtype=np.float64)
    for first, end in pairwise(edges):
        misses, clicks = counts[first:end].T
        worth[first:end, 1] = 2 * np.cumsum(misses) - misses
        worth[first:end, 0] = 2 * (clicks.sum() - np.cumsum(clicks)) + clicks
    return worth.ravel()


def auc_of(
    pairs: UnitPairs, halves: Whole, arm: Arms, counts: Whole, edges: Sequence[int]
) -> UnitDays:
    """The columns of `units/auc`; none of a variant without a click or without a miss.

    Args:
        pairs: All units.
        halves: Half-points that each unit's impressions are part of: won by its clicks, and by any
            click of the variant against its other impressions.
        arm: The variant of each unit.
        counts: Impressions without and with a click at each level, shape (levels, 2).
        edges: Where the levels of each variant begin, and the end.
    """
    of_units, pseudo = arm[pairs.unit], np.full(len(pairs.unit), np.nan)
    for number, (first, end) in enumerate(pairwise(edges)):
        misses, clicks = counts[first:end].T
        negatives, positives = float(misses.sum()), float(clicks.sum())
        if negatives and positives:
            won = int((clicks * (2 * np.cumsum(misses) - misses)).sum())
            auc = float(won) / (2.0 * positives * negatives)
            own = np.flatnonzero(of_units == number)
            p = pairs.clicks[own]
            n = pairs.impressions[own] - p
            pseudo[own] = auc + len(own) * (
                halves[own] / (2.0 * positives * negatives) - auc * (p / positives + n / negatives)
            )
    has = np.flatnonzero(~np.isnan(pseudo))
    return _of_period(
        pairs.unit[has],
        c_scored_units=np.ones(len(has), dtype=np.int64),
        c_auc=half_away(1e9 * pseudo[has]),
    )
