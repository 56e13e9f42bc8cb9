"""Compute values of units from their rows: sessions, lists, and values of quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import log2
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import NONE, Block, Column
from abeval.aggregates.sums import exact_sums
from abeval.logs import unit_arrays
from abeval.logs.unit_arrays import NO_DAY, Groups, Places, UnitDays, Whole, added, heads, key_of
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Distribution, distribution_of


def sessions(block: Block, gap_ms: int) -> UnitDays:
    """Count sessions, which end with a pause longer than the gap, and add up how long they were.

    Runs of the block are no longer than the gap, so that their ends are enough.
    """
    runs = block.runs
    timed = np.flatnonzero(runs["first_ms"] != NONE)
    first, last = (runs[name][timed] for name in ("first_ms", "last_ms"))
    longer = np.flatnonzero(last > first)
    run, time = np.append(timed, timed[longer]), np.append(first, last[longer])
    unit, phase, day = (runs[name][run] for name in ("unit", "in_period", "day"))
    order = np.argsort(key_of(unit, phase, time))
    unit, phase, day, time = unit[order], phase[order], day[order], time[order]
    begins = np.ones(len(time), dtype=bool)
    begins[1:] = (unit[1:] != unit[:-1]) | (phase[1:] != phase[:-1]) | (np.diff(time) > gap_ms)
    start = np.flatnonzero(begins)
    ends = np.append(start[1:], len(time))[: len(start)] - 1
    days = unit_arrays.reduced(np.minimum, day, start)
    lengths = time[ends] - time[start]
    return _by_day(
        *(unit[start], phase[start], days), c_sessions=np.ones_like(start), c_session_ms=lengths
    )


class Lists(NamedTuple):
    """The number of each run's list, -1 without a request; unit, phase and first day of a list."""

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
    days = _first_days(runs["day"][named][groups.order], groups.start)
    return Lists(of_run, unit[groups.first], phase[groups.first], days)


def page_views(lists: Lists) -> UnitDays:
    """Count the lists."""
    return _by_day(*lists[1:], c_page_views=np.ones(len(lists.unit), dtype=np.int64))


def category_diversity(block: Block, lists: Lists, category: Column) -> UnitDays:
    """Sum the share of pairs of a list's impressions that differ in their category.

    Categories are numbers from 0, -1 for none.
    """
    bits = (int(category.max(initial=0)) + 1).bit_length()
    small = len(lists.unit) << bits <= np.iinfo(np.int32).max
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
    diversity = unit_arrays.half_away(1e9 * (1 - alike.astype(np.float64) / pairs))
    return _by_day(
        *lists[1:],
        c_lists=several.astype(np.int64),
        c_diversity=np.where(several, diversity, 0),
        c_left_out_lists=(~several).astype(np.int64),
        c_left_out_impressions=np.where(several, impressions - n, impressions),
    )


def served_ranking(block: Block, lists: Lists) -> UnitDays:
    """Sum nDCG, reciprocal rank and average precision of the lists with a click.

    A `position` that is not known is `NONE`.
    """
    hits = np.flatnonzero(block.rows["click"])
    run, position = block.run[hits], block.rows["position"][hits].astype(np.int64)
    used = np.flatnonzero((lists.of_run[run] >= 0) & (position != NONE))
    number, position = lists.of_run[run[used]], position[used]
    order = np.argsort(key_of(number, position))
    number, position, day = number[order], position[order], block.runs["day"][run[used]][order]
    start = heads(number)
    clicks = np.diff(start, append=len(number))
    hit = np.arange(1, len(number) + 1) - np.repeat(start, clicks)
    gain, ideal = (added(_gains(at), start).astype(np.float64) for at in (position, hit))
    precision = added(unit_arrays.half_away(1e12 * hit / position), start).astype(np.float64)
    own = number[start]
    return _by_day(
        *(lists.unit[own], lists.in_period[own], _first_days(day, start)),
        c_clicked_lists=np.ones(len(own), dtype=np.int64),
        c_ndcg=unit_arrays.half_away(1e9 * (gain / ideal)),
        c_mrr=unit_arrays.half_away(1e9 * (1.0 / position[start])),
        c_map=unit_arrays.half_away(1e9 * (precision / (1e12 * clicks))),
    )


def _by_day(
    unit: NDArray[np.int32], in_period: NDArray[np.bool_], day: NDArray[np.int32], **columns: Whole
) -> UnitDays:
    """Sum rows by unit, phase and day, in the fewest bytes."""
    return narrow_days(unit_arrays.unit_days(unit, in_period, day, columns))


def narrow_days(days: UnitDays) -> UnitDays:
    """Keep the columns of sums in the fewest bytes."""
    columns = {name: unit_arrays.narrow(column) for name, column in days.columns.items()}
    return days._replace(columns=columns)


def _first_days(day: Column, start: Places) -> NDArray[np.int32]:
    """Return the first known day of each run of rows, `NO_DAY` where none is known."""
    late = np.int32(np.iinfo(np.int32).max)
    first = unit_arrays.reduced(np.minimum, np.where(day == NO_DAY, late, day), start)
    return np.where(first == late, NO_DAY, first).astype(np.int32)


def _gains(position: Whole) -> Whole:
    """Return what a click at each position is worth, in multiples of 1e-12."""
    known, place = unit_arrays.ranked(position)
    # The logarithm of the C library, as the engine's: NumPy's may differ in its last digit.
    gains = 1e12 / np.array([log2(1 + one) for one in known.tolist()])
    return unit_arrays.half_away(gains)[place]


@dataclass(frozen=True)
class Ranked:
    """The impressions of one variant that have a value.

    Attributes:
        stretch: Number of the stretch of each unit of the variant, shape (units,).
        unit: Place of the unit of each impression among these, shape (impressions,).
        value: Its value, a whole number.
    """

    stretch: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Whole

    @cached_property
    def levels(self) -> Distribution:
        """Return the values that occur."""
        # As whole numbers, which doubles could not tell apart beyond 2^53.
        values: NDArray[Any] = self.value
        return distribution_of(values)

    def below(self, at: float) -> Moments | None:
        """Return moments over units of the values below a place, and of all; None beyond them."""
        step, size = self.levels.step(at), len(self.stretch)
        if step is None:
            return None
        parts = (self.value < step.lower) * PARTS
        for neighbour, weight in zip((step.lower, step.upper), step.weights(at), strict=True):
            parts[self.value == neighbour] = weight
        below = np.bincount(self.unit, parts, size).astype(np.int64)
        counts = np.bincount(self.unit, minlength=size)
        of_stretches = (self.stretch == one for one in np.unique(self.stretch))
        return reduce(add, (_moments_of(below[own], counts[own]) for own in of_stretches))


@dataclass(frozen=True)
class Events:
    """The impressions of the period that have a value.

    Attributes:
        arm: Place of each unit's variant, shape (units,).
        unit: Place of the unit of each impression, shape (events,).
        value: Its value, a whole number.
        day: Its local day, counted from 1970; empty where no window asks for it.
    """

    variants: Sequence[str]
    arm: NDArray[np.int16]
    stretch: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Whole
    day: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def of_days(self, units: NDArray[np.integer], first: int, last: int) -> "Events":
        """Return the impressions of some days, of these units; others have none on those days."""
        place = np.zeros(len(self.arm), dtype=np.int32)
        place[units] = np.arange(len(units))
        rows = np.flatnonzero((self.day >= first) & (self.day <= last))
        own = self.arm[units], self.stretch[units], place[self.unit[rows]], self.value[rows]
        return Events(self.variants, *own)

    @cached_property
    def by_variant(self) -> dict[str, Ranked]:
        """Variant → its impressions; none of a variant without one."""
        ranked, arms = dict[str, Ranked](), self.arm[self.unit]
        place = np.zeros(len(self.arm), dtype=np.int32)
        for number, name in enumerate(self.variants):
            rows, units = np.flatnonzero(arms == number), np.flatnonzero(self.arm == number)
            place[units] = np.arange(len(units))
            if len(rows):
                own = place[self.unit[rows]], self.value[rows]
                ranked[name] = Ranked(self.stretch[units], *own)
        return ranked


def _moments_of(below: Whole, events: Whole) -> Moments:
    """Return moments of parts of values below a quantile, and of all values."""
    sums = exact_sums([below, events], [(0,), (1,), (0, 0), (0, 1), (1, 1)])
    (y,), (x,), (y_y,), (y_x,), (x_x,) = sums.values()
    products = [[y_y, y_x], [y_x, x_x]]
    return Moments.from_sums(len(below), [y, x], products, (1 / PARTS, 1.0))
