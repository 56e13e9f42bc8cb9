"""Sums of served lists by unit, phase and day: page views, ranking and diversity.

The queries `units/page_views`, `units/served_ranking` and `units/category_diversity` define them. A
list is what a unit saw of a request in one phase.
"""

from functools import lru_cache
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import NONE, Block, Column
from abeval.logs.unit_arrays import (
    NO_DAY,
    Groups,
    Places,
    UnitDays,
    Whole,
    added,
    half_away,
    heads,
    key_of,
    unit_days,
)

_LATE = np.iinfo(np.int32).max
"""Stands for no day where the first day is sought."""

_TABLE = 4096
"""Up to this position gains are looked up."""


class Lists(NamedTuple):
    """The lists of a block.

    Attributes:
        of_run: The number of each run's list, -1 without a request, shape (runs,).
        unit: Place of the unit, shape (lists,).
        in_period: Phase.
        day: Of its first impression.
    """

    of_run: Places
    unit: NDArray[np.int32]
    in_period: NDArray[np.bool_]
    day: NDArray[np.int32]


def lists_of(block: Block) -> Lists:
    """Put the runs of a block together that are of one list."""
    runs = block.runs
    named = np.flatnonzero(runs["request"] != NONE)
    unit, phase, request = (runs[name][named] for name in ("unit", "in_period", "request"))
    groups = Groups.of(key_of(unit, phase, request))
    of_run = np.full(len(runs["unit"]), -1, dtype=np.intp)
    of_run[named] = groups.numbers
    own = groups.first
    day = groups.min(_late(runs["day"][named]))
    return Lists(of_run, unit[own], phase[own], _dated(day))


def page_views(lists: Lists) -> UnitDays:
    """Count the lists."""
    return _by_day(lists, c_page_views=np.ones(len(lists.unit), dtype=np.int64))


def category_diversity(block: Block, lists: Lists, category: Column) -> UnitDays:
    """Sum the share of pairs of a list's impressions that differ in their category.

    Args:
        block: The impressions.
        lists: Of the block.
        category: Of each impression: a number from 0, -1 where there is none.
    """
    bits = (int(category.max(initial=0)) + 1).bit_length()
    small = len(lists.unit) << bits <= _LATE
    number: Column = lists.of_run.astype(np.int32 if small else np.int64)
    # Impressions of no list have negative keys.
    key = block.of_run(number << bits)
    key += category
    key += 1
    key.sort()
    key = key[np.searchsorted(key, 0) :]
    start = heads(key)
    count = np.diff(start, append=len(key))
    own = key[start] >> bits
    of_list, known = heads(own), np.where(key[start] > own << bits, count, 0)
    alike = added(known * (known - 1), of_list)
    n, impressions = added(known, of_list), added(count, of_list)
    several = n >= 2
    pairs = np.where(several, n.astype(np.float64) * (n - 1), 1.0)
    diversity = half_away(1e9 * (1 - alike.astype(np.float64) / pairs))
    return _by_day(
        lists,
        c_lists=several.astype(np.int64),
        c_diversity=np.where(several, diversity, 0),
        c_left_out_lists=(~several).astype(np.int64),
        c_left_out_impressions=np.where(several, impressions - n, impressions),
    )


def served_ranking(block: Block, lists: Lists) -> UnitDays:
    """Sum nDCG, reciprocal rank and average precision of the lists with a click.

    Args:
        block: With `click` and `position`, which is `NONE` where it is not known.
        lists: Of the block.
    """
    hits = np.flatnonzero(block.rows["click"])
    run, position = block.run[hits], block.rows["position"][hits].astype(np.int64)
    used = np.flatnonzero((lists.of_run[run] >= 0) & (position != NONE))
    run, position = run[used], position[used]
    number = lists.of_run[run]
    groups = Groups.of(key_of(number, position))
    number, position, day = number[groups.order], position[groups.order], block.runs["day"][run]
    start = heads(number)
    clicks = np.diff(start, append=len(number))
    hit = np.arange(1, len(number) + 1) - np.repeat(start, clicks)
    gain, ideal = (added(_gains(at), start).astype(np.float64) for at in (position, hit))
    precision = added(half_away(1e12 * hit / position), start)
    own = number[start]
    first = _late(day[groups.order])
    days = np.minimum.reduceat(first, start) if len(start) else first
    return unit_days(
        lists.unit[own],
        lists.in_period[own],
        _dated(days),
        {
            "c_clicked_lists": np.ones(len(own), dtype=np.int64),
            "c_ndcg": half_away(1e9 * (gain / ideal)),
            "c_mrr": half_away(1e9 * (1.0 / position[start])),
            "c_map": half_away(1e9 * (precision.astype(np.float64) / (1e12 * clicks))),
        },
    )


def _by_day(lists: Lists, **columns: Whole) -> UnitDays:
    return unit_days(lists.unit, lists.in_period, lists.day, columns)


def _late(day: Column) -> NDArray[np.int32]:
    return np.where(day == NO_DAY, _LATE, day).astype(np.int32)


def _dated(day: Column) -> NDArray[np.int32]:
    return np.where(day == _LATE, NO_DAY, day).astype(np.int32)


def _gains(position: Whole) -> Whole:
    """What a click at each position is worth, in multiples of 1e-12."""
    if not len(position) or int(position.max()) <= _TABLE:
        return _gain_table()[position]
    distinct, number = np.unique(position, return_inverse=True)
    return _gains_at(distinct)[number]


@lru_cache
def _gain_table() -> Whole:
    return np.append(0, _gains_at(np.arange(1, _TABLE + 1)))


def _gains_at(position: Whole) -> Whole:
    # The logarithm of the C library, as the engine's: NumPy's may differ in its last digit.
    return half_away(1e12 / np.array([log2(1 + one) for one in position.tolist()]))
