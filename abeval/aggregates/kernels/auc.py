"""Compute GAUC and AUC by sorts of whole numbers: `units/gauc`, `units/auc`, and GAUC of days.

Scores become *levels*: whole numbers that order the impressions of a variant as their scores do.
Scores of a few decimals are whole multiples of one fraction, and those are the levels. Of other
scores only the place among the clicked scores of the variant counts, for it orders an impression
against the clicks of its own unit (GAUC) and against all clicks (AUC).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import Block, UnitRows
from abeval.aggregates.kernels.values import narrow_days
from abeval.logs import unit_arrays
from abeval.logs.unit_arrays import Floats, Places, UnitDays, Whole, added, half_away, heads
from abeval.metrics.definition import AUC, GAUC, Source

_DIGITS = 7
"""The most decimals of scores that are levels themselves."""

_LEVELS = 1 << 22
"""The most such levels: tables of them stay near the processor."""

Arms = NDArray[np.int16]

Days = tuple[int, int]
"""The first day and the last, counted from 1970."""


class Levels(NamedTuple):
    """Where the levels of each variant begin, and the end; the level of each score of a variant."""

    edges: Sequence[int]
    of: Callable[[Floats, Arms], Whole]


def by_decimals(digits: int, lowest: int, size: int, score: Floats, arm: Arms) -> Whole:
    """Return levels of scores of so many decimals: multiples from the lowest on.

    Example:
        >>> by_decimals(1, -5, 20, np.array([-0.5, 0.3, 0.3]), np.array([0, 0, 1])).tolist()
        [0, 8, 28]
    """
    level = np.rint(score * 10.0**digits).astype(np.int64)
    level += arm * np.int64(size) - lowest
    return level


def among_clicked(
    clicked: Sequence[Floats], edges: Sequence[int], score: Floats, arm: Arms
) -> Whole:
    """Return levels by the place among the clicked scores of a variant, each once, ascending.

    Level 2 i + 1 is that of clicked score i, 2 i lies between it and the one below.

    Example:
        >>> clicked, scores = [np.array([0.2]), np.array([0.1, 0.3])], np.array([0.2, 0.1, 0.3])
        >>> among_clicked(clicked, [0, 3, 8], scores, np.array([0, 1, 1])).tolist()
        [1, 4, 6]
    """
    level = np.empty(len(score), dtype=np.int64)
    for number, known in enumerate(clicked):
        own = np.flatnonzero(arm == number)
        # Sorted scores are found several times sooner.
        own = own[np.argsort(score[own])]
        place = np.searchsorted(known, score[own])
        met = np.append(known, np.nan)[place] == score[own]
        level[own] = 2 * place + met + edges[number]
    return level


def _decimals(block: Block) -> tuple[int, float, float]:
    """Return the fewest decimals that all scores have, up to `_DIGITS`, and their ends."""
    score = block.rows["score"]
    known = score[~np.isnan(score)]
    ends = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    for digits in range(_DIGITS):
        step = 10.0**digits
        if all((np.rint(some * step) / step == some).all() for some in (known[:1000], known)):
            return digits, *ends
    return _DIGITS, *ends


def _levels(rows: UnitRows, arm: Arms, arms: int) -> Levels:
    """Return the levels of all scores."""
    digits, lowest, highest = zip(*rows.each(_decimals, "score"), strict=True)
    most = max(digits)
    if most < _DIGITS and min(lowest) <= max(highest):
        low, high = (round(end * 10.0**most) for end in (min(lowest), max(highest)))
        size = high - low + 1
        if size * arms <= _LEVELS:
            edges: Sequence[int] = range(0, size * arms + 1, size)
            return Levels(edges, partial(by_decimals, most, low, size))

    def clicked(block: Block) -> list[Floats]:
        own = scored(block, arm)
        return [own.score[own.click & (own.arm == one)] for one in range(arms)]

    of_arms = zip(*rows.each(clicked, "score", "click"), strict=True)
    # The negative zero equals the other one, and could be told apart from it.
    known = [np.unique(np.concatenate(listed) + 0.0) for listed in of_arms]
    edges = [0, *np.cumsum([2 * len(scores) + 1 for scores in known]).tolist()]
    return Levels(edges, partial(among_clicked, known, edges))


class Scored(NamedTuple):
    """The scored impressions of the period, their units, variants and clicks.

    `rows` says which impressions of the block they are.
    """

    unit: NDArray[np.int32]
    arm: Arms
    score: Floats
    click: NDArray[np.bool_]
    rows: slice | Places

    def results(self, levels: Levels) -> Whole:
        """Return twice the level of each, and one more where it was clicked."""
        return 2 * levels.of(self.score, self.arm) + self.click


def scored(block: Block, arm: Arms) -> Scored:
    """Return the scored impressions of a block; `arm` is the variant of each unit."""
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
        halves: Over pairs of a click and an impression without: 2 for a higher score, 1 for a tie.
    """

    unit: NDArray[np.integer]
    impressions: Whole
    clicks: Whole
    halves: Whole


def unit_pairs(unit: NDArray[np.integer], result: Whole) -> UnitPairs:
    """Return what `units/gauc` counts for each unit, from results (`Scored`) of its impressions.

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
        """Return how many of the impressions before a place have no click."""
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
    """Return the columns of `units/gauc`."""
    n, p = pairs.impressions, pairs.clicks
    both = (p > 0) & (p < n)
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = pairs.halves / (2.0 * p * (n - p))
    return _of_period(
        pairs.unit,
        c_impressions=np.where(both, n, 0),
        c_weighted_auc=half_away(np.where(both, 1e9 * n * auc, 0.0)),
        c_left_out_units=np.where(both, 0, 1),
        c_left_out_impressions=np.where(both, 0, n),
        c_left_out_clicks=np.where(both, 0, p),
    )


def _of_period(unit: NDArray[Any], **columns: Whole) -> UnitDays:
    days = np.full(len(unit), unit_arrays.NO_DAY, dtype=np.int32)
    return narrow_days(UnitDays(unit, np.ones(len(unit), dtype=bool), days, columns))


def score_sums(
    rows: UnitRows, arm: Arms, arms: int, days: Days | None = None
) -> tuple[dict[Source, UnitDays], list[UnitDays]]:
    """Return GAUC and AUC of some units, and GAUC of each unit's days, block by block.

    `rows` have `click` and `score`, NaN where there is none; `arm` is the variant of each unit; of
    `days`, the first and the last, GAUC is computed too, from the `day` of rows.
    """
    levels = _levels(rows, arm, arms)

    def counted(block: Block) -> tuple[UnitPairs, Places, Whole, list[UnitDays]]:
        own = scored(block, arm)
        result = own.results(levels)
        times = np.bincount(result)
        met = np.flatnonzero(times)
        by_day = [_of_days(block, own, result, days)] if days else []
        return unit_pairs(own.unit, result), met, times[met], by_day

    of_blocks, of_days = list[UnitPairs](), list[UnitDays]()
    counts = np.zeros((levels.edges[-1], 2), dtype=np.int64)
    for paired, met, times, by_day in rows.each(counted, "score", "click"):
        of_blocks.append(paired)
        of_days += by_day
        counts.ravel()[met] += times
    worth = _worth(counts, levels.edges)

    def won(block: Block) -> Whole:
        own = scored(block, arm)
        halves = worth.ravel()[own.results(levels)]
        # Impressions of a unit lie together, so that few sums are left to sort.
        start = heads(own.unit)
        return unit_arrays.Groups.of(own.unit[start].astype(np.int64)).sum(added(halves, start))

    halves = np.concatenate([*rows.each(won, "score", "click")])
    columns = [*map(np.concatenate, zip(*of_blocks, strict=True))]
    # Blocks of another machine have units from here and there.
    order = np.argsort(columns[0], kind="stable")
    pairs = UnitPairs(*(column[order] for column in columns))
    starts = levels.edges[:-1]
    of_arms = np.add.reduceat(counts, starts), np.add.reduceat(counts[:, 1] * worth[:, 1], starts)
    return {GAUC: gauc_of(pairs), AUC: auc_of(pairs, halves[order], arm, *of_arms)}, of_days


def _of_days(block: Block, own: Scored, result: Whole, days: Days) -> UnitDays:
    """Return GAUC with a day of a unit in place of a unit; rows without a day are of none."""
    first, last = days
    size = np.int64(last - first + 1)
    day = block.of_run(block.runs["day"])[own.rows]
    dated = np.flatnonzero(day >= first)
    unit_day = own.unit[dated] * size + (day[dated] - first)
    of_days = gauc_of(unit_pairs(unit_day, result[dated]))
    unit, place = np.divmod(of_days.unit, size)
    return of_days._replace(unit=unit.astype(np.int32), day=(place + first).astype(np.int32))


def _worth(counts: Whole, edges: Sequence[int]) -> Whole:
    """Return half-points of an impression against all others of its variant, by level and click.

    A click wins against those without below it and half against those at its level; against one
    without, all clicks win likewise.
    """
    worth = np.empty(counts.shape, dtype=np.int64)
    for first, end in pairwise(edges):
        misses, clicks = counts[first:end].T
        worth[first:end, 1] = 2 * np.cumsum(misses) - misses
        worth[first:end, 0] = 2 * (clicks.sum() - np.cumsum(clicks)) + clicks
    return worth


def auc_of(pairs: UnitPairs, halves: Whole, arm: Arms, counts: Whole, won: Whole) -> UnitDays:
    """Return the columns of `units/auc`; none of a variant without a click or without a miss.

    Args:
        pairs: All units.
        halves: Half-points won by each unit's clicks, and by any click against its other rows.
        arm: The variant of each unit.
        counts: Impressions of each variant without and with a click, shape (variants, 2).
        won: Half-points that the clicks of each variant win.
    """
    own = arm[pairs.unit]
    units = np.bincount(own, minlength=len(counts))[own]
    negatives, positives = counts.astype(np.float64).T
    with np.errstate(invalid="ignore", divide="ignore"):
        every = 2.0 * positives * negatives
        auc, p = (won / every)[own], pairs.clicks
        share = p / positives[own] + (pairs.impressions - p) / negatives[own]
        pseudo = auc + units * (halves / every[own] - auc * share)
    has = np.flatnonzero(np.isfinite(pseudo))
    return _of_period(
        pairs.unit[has],
        c_scored_units=np.ones(len(has), dtype=np.int64),
        c_auc=half_away(1e9 * pseudo[has]),
    )
