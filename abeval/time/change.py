"""Whether a series of effects changes, and how: shared by stability and novelty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.stats import shapes
from abeval.stats.distributions import tail
from abeval.stats.records import Refusal
from abeval.stats.windows import Windows
from abeval.time.axes import Axis

Floats = NDArray[np.float64]

LEVEL = 0.01
"""Of the tests inside."""

MIN_DAYS = 4
MIN_UNITS = 30
WEEK = 7
SETTLED = 1 / 6
"""Longest time constant of a decay, as a share of the days: slower ones look like a trend."""

SHOCKS = 2
"""Single days that may be set apart."""


@dataclass(frozen=True)
class Series:
    """Daily effects that can be compared.

    Attributes:
        times: Their places on the axis.
        windows: The effects with their covariance.
        weeks: Whole weeks among the days: places within `times`.
        dropped: Whole days that have too few units, or nothing to measure.
    """

    times: NDArray[np.int64]
    windows: Windows
    weeks: tuple[tuple[int, ...], ...]
    dropped: int

    @property
    def nuisance(self) -> Floats:
        """A constant, and from two whole weeks on a weekly rhythm."""
        ones = np.ones((len(self.times), 1))
        if len(self.weeks) < 2:
            return ones
        return np.hstack([ones, shapes.rhythm(self.times)])


@dataclass(frozen=True)
class Change:
    """What was found.

    Attributes:
        p_value: Of the best shape, before single days were set apart.
        shape: The trend or decay that was found, or None.
        matches: The last search's shapes.
        shocks: Times of the single days set apart.
        design: Constant, rhythm and shocks.
        drifts_on: Whether, beside a decay, a trend remains.
    """

    p_value: float
    shape: shapes.Match | None
    matches: tuple[shapes.Match, ...]
    shocks: tuple[int, ...]
    design: Floats
    drifts_on: bool


def series_of(axis: Axis, variant: str) -> Series:
    """The whole days of an axis on which both variants have something to measure.

    Raises:
        Refusal: `too_few_units` for fewer than `MIN_DAYS` such days; as `windows.effects`.
    """
    from abeval.stats.windows import effects

    whole = [day for day in range(len(axis.labels)) if not axis.partial[day]]
    days = [day for day in whole if measures(axis, variant, day)]
    if len(days) < MIN_DAYS:
        raise Refusal(
            "too_few_units",
            f"{len(days)} whole days with {MIN_UNITS} units in each variant and something to "
            f"measure; {MIN_DAYS} are needed",
        )
    control, treatment = axis.by_day(variant, days)
    if min(control.n, treatment.n) <= len(days):
        raise Refusal("too_few_units", f"{len(days)} days need more units than days")
    found = effects(control, treatment)
    return Series(np.array(days), found, whole_weeks(days), len(whole) - len(days))


def whole_weeks(days: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Weeks from the first day on of which every day is there, as places within `days`.

    Example:
        >>> [len(week) for week in whole_weeks(range(1, 17))], whole_weeks([0, 2, 3])
        ([7, 7], ())
    """
    place = {day: i for i, day in enumerate(days)}
    starts = range(days[0], days[-1] - WEEK + 2, WEEK)
    weeks = [range(start, start + WEEK) for start in starts]
    return tuple(
        tuple(place[day] for day in week) for week in weeks if all(day in place for day in week)
    )


def find(series: Series) -> Change:
    """Search trends, decays and shocks; single odd days are set apart and the search goes on.

    Raises:
        Refusal: As `shapes.search`.
    """
    times, windows = series.times, series.windows
    longest = (times[-1] + 1 - times[0]) * SETTLED
    candidates = [
        shapes.trend(times),
        *shapes.decays(times - times[0], longest),
        *shapes.shocks(times),
    ]
    design, first = series.nuisance, 1.0
    set_apart: list[int] = []
    while True:
        found = shapes.search(windows.effect, windows.covariance, candidates, design)
        first = first if set_apart else found.p_value
        odd = found.best.shape.kind == "shock"
        if found.p_value >= LEVEL or not odd or len(set_apart) == SHOCKS:
            break
        set_apart.append(int(found.best.shape.at))
        design = np.column_stack([design, found.best.shape.values])
    changed = found.p_value < LEVEL and not odd
    shape = found.best if changed else None
    on = shape is not None and shape.shape.kind == "decay" and _trend_left(series, design, shape)
    return Change(first, shape, found.matches, tuple(sorted(set_apart)), design, on)


def _trend_left(series: Series, design: Floats, decay: shapes.Match) -> bool:
    windows = series.windows
    beside = np.column_stack([design, decay.shape.values])
    line = [shapes.trend(series.times)]
    try:
        left = shapes.search(windows.effect, windows.covariance, line, beside)
    except Refusal:
        return False
    return tail(left.best.z).p_value < LEVEL


def measures(axis: Axis, variant: str, day: int) -> bool:
    """Whether both variants have units enough on a day, and something to measure."""
    try:
        arms = axis.window(variant, (day, day))
    except Refusal:
        return False
    return all(arm.n >= MIN_UNITS and arm.mean[1] != 0 and arm.covariance[0, 0] > 0 for arm in arms)
