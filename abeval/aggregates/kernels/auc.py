"""GAUC and AUC by sorts of whole numbers: `units/gauc` and `units/auc`; for windows, GAUC of days.

Scores become *levels*: whole numbers that order the impressions of a variant as their scores do.
Scores of a few decimals are whole multiples of one fraction, and those are the levels. Of other
scores only the place among the clicked scores of the variant counts, for it orders an impression
against the clicks of its own unit (GAUC) and against all clicks (AUC).

`row_pass.py` hands it the blocks.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import Block, UnitRows
from abeval.aggregates.sums import Whole
from abeval.logs.unit_arrays import (
    NO_DAY,
    Floats,
    Groups,
    Places,
    UnitDays,
    added,
    half_away,
    heads,
)

_DIGITS = 7
"""The most decimals of scores that are levels themselves."""

_LEVELS = 1 << 22
"""The most such levels: tables of them stay near the processor."""

Arms = NDArray[np.int16]

Days = tuple[int, int]
"""The first day and the last, counted from 1970."""


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


def _decimals(score: Floats) -> tuple[int, float, float]:
    """The fewest decimals that all scores have, `_DIGITS` for no such number, and their ends."""
    known = score[~np.isnan(score)]
    ends = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    for digits in range(_DIGITS):
        step = 10.0**digits
        if all((np.rint(some * step) / step == some).all() for some in (known[:1000], known)):
            return digits, *ends
    return _DIGITS, *ends


def _levels(rows: UnitRows, arm: Arms, arms: int) -> Levels:
    """The levels of all scores."""
    parts = rows.each(lambda block: _decimals(block.rows["score"]), "score")
    digits, lowest, highest = zip(*parts, strict=True)
    most = max(digits)
    if most < _DIGITS and min(lowest) <= max(highest):
        low, high = (round(end * 10.0**most) for end in (min(lowest), max(highest)))
        if (high - low + 1) * arms <= _LEVELS:
            return Decimals(most, low, high - low + 1, arms)

    def clicked(block: Block) -> list[Floats]:
        own = scored(block, arm)
        return [own.score[own.click & (own.arm == one)] for one in range(arms)]

    of_arms = zip(*rows.each(clicked, "score", "click"), strict=True)
    # The negative zero equals the other one, and could be told apart from it.
    return AmongClicked([np.unique(np.concatenate(listed) + 0.0) for listed in of_arms])


class Scored(NamedTuple):
    """The scored impressions of the period.

    Attributes:
        unit: Place of the unit, shape (impressions,).
        arm: Its variant.
        score: Of the served model, finite.
        click: Whether it was clicked.
        rows: Which impressions of the block they are.
    """

    unit: NDArray[np.int32]
    arm: Arms
    score: Floats
    click: NDArray[np.bool_]
    rows: slice | Places


def scored(block: Block, arm: Arms) -> Scored:
    """The scored impressions of a block; `arm` is the variant of each unit."""
    score = block.rows["score"]
    used = block.of_run(block.runs["in_period"])
    used &= ~np.isnan(score)
    rows = slice(None) if used.all() else np.flatnonzero(used)
    unit = block.of_run(block.runs["unit"])[rows]
    return Scored(unit, arm[unit], score[rows], block.rows["click"][rows], rows)


class UnitPairs(NamedTuple):
    """Each unit's impressions, clicks, and half-points its clicks win against its other scores.

    Attributes:
        unit: Place of the unit, ascending, shape (units,).
        impressions: All of them.
        clicks: The clicked ones.
        halves: Over pairs of a click and an impression without: 2 for a higher score, 1 for a tie.
    """

    unit: NDArray[np.integer]
    impressions: Whole
    clicks: Whole
    halves: Whole


def unit_pairs(unit: NDArray[np.integer], result: Whole) -> UnitPairs:
    """What `units/gauc` counts for each unit.

    Args:
        unit: Place of the unit of each impression.
        result: Twice its level, and one more where it was clicked.

    Example:
        >>> unit_pairs(np.array([5, 5, 6]), np.array([3, 0, 2])).halves.tolist()
        [2, 0]
    """
    first = int(unit.min()) if len(unit) else 0
    bits = int(result.max(initial=0)).bit_length()
    # Unit and result in one number: a sort of numbers is many times one of rows.
    key = (unit - first).astype(np.int64)
    key <<= bits
    key |= result
    key.sort()
    start = heads(key >> bits)
    hits = np.flatnonzero(key & 1)

    def misses(place: Places) -> Whole:
        """How many of the impressions before a place have no click."""
        return place - np.searchsorted(hits, place)

    own = np.searchsorted(start, hits, side="right") - 1
    below = misses(np.searchsorted(key, key[hits] - 1))
    won = below + misses(hits) - 2 * misses(start)[own]
    halves = np.bincount(own, weights=won, minlength=len(start)).astype(np.int64)
    impressions = np.diff(start, append=len(key))
    clicks = np.bincount(own, minlength=len(start))
    units = ((key[start] >> bits) + first).astype(unit.dtype)
    return UnitPairs(units, impressions, clicks, halves)


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


def _of_period(unit: NDArray[Any], **columns: Whole) -> UnitDays:
    days = np.full(len(unit), NO_DAY, dtype=np.int32)
    return UnitDays(unit, np.ones(len(unit), dtype=bool), days, columns)


class ScoreSums(NamedTuple):
    """What `units/gauc` and `units/auc` return, and GAUC of each unit's days, block by block."""

    gauc: UnitDays
    auc: UnitDays
    gauc_days: Sequence[UnitDays]


def score_sums(rows: UnitRows, arm: Arms, arms: int, days: Days | None = None) -> ScoreSums:
    """GAUC and AUC of some units.

    Args:
        rows: With `click` and `score`, NaN where there is none.
        arm: The variant of each unit.
        arms: How many variants there are.
        days: The first and the last day of which GAUC is computed too, from the `day` of rows.
    """
    levels = _levels(rows, arm, arms)

    def counted(block: Block) -> tuple[UnitPairs, Places, Whole]:
        own = scored(block, arm)
        result = 2 * levels.of(own.score, own.arm) + own.click
        times = np.bincount(result)
        met = np.flatnonzero(times)
        return unit_pairs(own.unit, result), met, times[met]

    of_blocks = list[UnitPairs]()
    counts = np.zeros((levels.edges[-1], 2), dtype=np.int64)
    for paired, met, times in rows.each(counted, "score", "click"):
        of_blocks.append(paired)
        counts.ravel()[met] += times
    worth = _worth(counts, levels.edges)

    def won(block: Block) -> Whole:
        own = scored(block, arm)
        halves = worth[2 * levels.of(own.score, own.arm) + own.click]
        # Impressions of a unit lie together, so that few sums are left to sort.
        start = heads(own.unit)
        return Groups.of(own.unit[start].astype(np.int64)).sum(added(halves, start))

    halves = np.concatenate([*rows.each(won, "score", "click")])
    columns = [*map(np.concatenate, zip(*of_blocks, strict=True))]
    # Blocks of another machine have units from here and there.
    order = np.argsort(columns[0], kind="stable")
    pairs = UnitPairs(*(column[order] for column in columns))
    auc = auc_of(pairs, halves[order], arm, counts, levels.edges)
    return ScoreSums(gauc_of(pairs), auc, _gauc_days(rows, arm, levels, days) if days else ())


def _gauc_days(rows: UnitRows, arm: Arms, levels: Levels, days: Days) -> list[UnitDays]:
    """GAUC with a day of a unit in place of a unit; rows without a day are of none."""
    first, last = days
    size = np.int64(last - first + 1)

    def paired(block: Block) -> UnitDays:
        own = scored(block, arm)
        day = block.of_run(block.runs["day"])[own.rows]
        dated = np.flatnonzero(day >= first)
        result = 2 * levels.of(own.score[dated], own.arm[dated]) + own.click[dated]
        of_days = gauc_of(unit_pairs(own.unit[dated] * size + (day[dated] - first), result))
        unit, place = np.divmod(of_days.unit, size)
        return of_days._replace(unit=unit.astype(np.int32), day=(place + first).astype(np.int32))

    return [*rows.each(paired, "score", "click")]


def _worth(counts: Whole, edges: Sequence[int]) -> Whole:
    """Half-points of an impression against all others of its variant, by level and click.

    A click wins against those without below it and half against those at its level; against one
    without, all clicks win likewise.
    """
    worth = np.empty(counts.shape, dtype=np.int64)
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
