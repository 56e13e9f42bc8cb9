"""Compute values of units from their rows: sessions, lists, and values of quantiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import NONE, Block, Column
from abeval.aggregates.sums import exact_sums
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
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Distribution, Step, distribution_of


def sessions(block: Block, gap_ms: int) -> UnitDays:
    """Count sessions, and add up how long they were.

    Args:
        block: Its runs are no longer than the gap, so that the ends of a run are enough.
        gap_ms: A longer pause ends a session.
    """
    runs = block.runs
    timed = np.flatnonzero(runs["first_ms"] != NONE)
    first, last = (runs[name][timed] for name in ("first_ms", "last_ms"))
    longer = np.flatnonzero(last > first)
    run, time = np.append(timed, timed[longer]), np.append(first, last[longer])
    unit, phase, day = (runs[name][run] for name in ("unit", "in_period", "day"))
    order = Groups.of(key_of(unit, phase, time)).order
    unit, phase, day, time = unit[order], phase[order], day[order], time[order]
    begins = np.ones(len(time), dtype=bool)
    begins[1:] = (unit[1:] != unit[:-1]) | (phase[1:] != phase[:-1]) | (np.diff(time) > gap_ms)
    start = np.flatnonzero(begins)
    ends = np.append(start[1:], len(time))[: len(start)] - 1
    days = np.minimum.reduceat(day, start) if len(start) else day
    return unit_days(
        unit[start],
        phase[start],
        days,
        {
            "c_sessions": np.ones(len(start), dtype=np.int64),
            "c_session_ms": time[ends] - time[start],
        },
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
    """Return what a click at each position is worth, in multiples of 1e-12."""
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


Place = tuple[str, float]
"""A variant, and a place on the scale of the middles of its values."""


class Span(NamedTuple):
    """The values of a variant's impressions: how many, and the outermost."""

    events: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class Events:
    """The impressions of the period that have a value.

    Attributes:
        variants: Those of the experiment.
        arm: Place of each unit's variant, shape (units,).
        stretch: Number of each unit's stretch.
        unit: Place of the unit of each impression, shape (events,).
        value: Its value, a whole number.
        day: Its local day, counted from 1970; None where no window asks for it.
    """

    variants: Sequence[str]
    arm: NDArray[np.int16]
    stretch: NDArray[np.int16]
    unit: NDArray[np.int32]
    value: Whole
    day: NDArray[np.int32] | None = None

    def of_days(self, units: NDArray[np.integer], first: int, last: int) -> "Events":
        """Return the impressions of some days, of these units; others have none on those days."""
        if self.day is None:
            raise ValueError("the days of the values were not read")
        place = np.zeros(len(self.arm), dtype=np.int32)
        place[units] = np.arange(len(units))
        rows = np.flatnonzero((self.day >= first) & (self.day <= last))
        return replace(
            self,
            arm=self.arm[units],
            stretch=self.stretch[units],
            unit=place[self.unit[rows]],
            value=self.value[rows],
            day=None,
        )

    @property
    def spans(self) -> dict[str, Span]:
        """Variant → how many values it has, and the outermost."""
        return {
            name: Span(len(self._rows[name]), int(levels.values[0]), int(levels.values[-1]))
            for name, levels in self._levels.items()
        }

    def steps(self, places: Sequence[Place]) -> dict[Place, Step]:
        """Return the neighbouring values of each place that lies between two."""
        steps = {(name, at): self._levels[name].step(at) for name, at in places}
        return {place: step for place, step in steps.items() if step is not None}

    def below(self, steps: Mapping[Place, Step]) -> dict[str, Moments]:
        """Variant → moments over units of the values below its quantile, and of all."""
        return {n: self._moments(n, step, step.weights(at)) for (n, at), step in steps.items()}

    @cached_property
    def _rows(self) -> dict[str, NDArray[np.intp]]:
        """Variant → its impressions; none of a variant without one."""
        arms = self.arm[self.unit]
        rows = {name: np.flatnonzero(arms == i) for i, name in enumerate(self.variants)}
        return {name: own for name, own in rows.items() if len(own)}

    @cached_property
    def _levels(self) -> dict[str, Distribution]:
        # As whole numbers, which doubles could not tell apart beyond 2^53.
        values: dict[str, NDArray[Any]] = {n: self.value[own] for n, own in self._rows.items()}
        return {name: distribution_of(own) for name, own in values.items()}

    @cached_property
    def _counts(self) -> Whole:
        """Return how many values each unit has."""
        return np.bincount(self.unit, minlength=len(self.arm))

    def _moments(self, variant: str, step: Step, weights: tuple[int, int]) -> Moments:
        rows = self._rows[variant]
        value = self.value[rows]
        parts = (value < step.lower) * PARTS
        for neighbour, weight in zip((step.lower, step.upper), weights, strict=True):
            parts[value == neighbour] = weight
        below = np.bincount(self.unit[rows], parts, len(self.arm)).astype(np.int64)
        of_variant = self.arm == self.variants.index(variant)
        known = None
        for stretch in np.flatnonzero(np.bincount(self.stretch[of_variant])):
            units = np.flatnonzero(of_variant & (self.stretch == stretch))
            own = _moments_of(below[units], self._counts[units])
            known = own if known is None else known + own
        if known is None:
            raise ValueError(f"no unit is in variant {variant!r}")
        return known


def _moments_of(below: Whole, events: Whole) -> Moments:
    """Return moments of parts of values below a quantile, and of all values."""
    sums = exact_sums([below, events], [(0,), (1,), (0, 0), (0, 1), (1, 1)])
    if sums is None:
        raise OverflowError("the values of a unit are too many to be counted")
    (y,), (x,), (y_y,), (y_x,), (x_x,) = sums.values()
    products = [[y_y, y_x], [y_x, x_x]]
    return Moments.from_sums(len(below), [y, x], products, (1 / PARTS, 1.0))
