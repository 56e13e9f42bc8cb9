"""Whether a series of daily effects changes, and how: shared by stability and novelty.

`time/stability.py` and `time/novelty.py` hand it a `Course` and read the `Change`; `time/events.py`
gets the `Series` of the calendar.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abeval.inference.means_and_ratios import Pair
from abeval.stats import shapes
from abeval.stats.distributions import tail
from abeval.stats.records import Floats, Integers, Refusal
from abeval.stats.shapes import Windows, effects
from abeval.time.windows import Course

LEVEL = 0.01
"""Of the tests of stability and novelty."""

MIN_DAYS = 4
MIN_UNITS = 30
WEEK = 7
SETTLED = 1 / 6
"""Longest time constant of a decay, as a share of the days: slower ones look like a trend."""

SHOCKS = 2
"""Single days that may be left out of the search."""


@dataclass(frozen=True)
class Series:
    """Daily effects that can be compared.

    Attributes:
        times: Their places on the axis.
        windows: The effects with their covariance.
        weeks: Whole weeks among the days: places within `times`.
    """

    times: Integers
    windows: Windows
    weeks: tuple[tuple[int, ...], ...]

    @property
    def nuisance(self) -> Floats:
        """A constant, and from two whole weeks on a weekly rhythm."""
        ones = np.ones((len(self.times), 1))
        if len(self.weeks) < 2:
            return ones
        return np.hstack([ones, shapes.rhythm(self.times)])


@dataclass(frozen=True)
class Change:
    """How a series of effects changes.

    Attributes:
        p_value: Of the best shape, before single days were left out.
        shape: The trend or decay that is significant, or None.
        matches: The last search's shapes.
        shocks: Times of the single days that were left out.
        design: Constant, rhythm and shocks.
        drifts_on: Whether, beside a decay, a trend remains.
    """

    p_value: float
    shape: shapes.Match | None
    matches: tuple[shapes.Match, ...]
    shocks: tuple[int, ...]
    design: Floats
    drifts_on: bool


def series_of(course: Course) -> Series:
    """The whole days of an axis on which both variants have something to measure.

    Raises:
        Refusal: `too_few_units` for fewer than `MIN_DAYS` such days; as `windows.effects`.
    """
    days = [
        day
        for day, arms in enumerate(course.each_day())
        if not course.axis.partial[day] and has_effect(arms)
    ]
    if len(days) < MIN_DAYS:
        raise Refusal(
            "too_few_units",
            f"{len(days)} whole days with {MIN_UNITS} units in each variant and values "
            f"that vary; {MIN_DAYS} are needed",
        )
    control, treatment = course.by_day(days)
    if min(control.n, treatment.n) <= len(days):
        raise Refusal("too_few_units", f"{len(days)} days need more units than days")
    return Series(np.array(days), effects(control, treatment), whole_weeks(days))


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


def find_change(series: Series) -> Change:
    """Search trends, decays and shocks; a single odd day is left out and the search goes on.

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
    design, p_value = series.nuisance, 1.0
    odd_days: list[int] = []
    while True:
        search = shapes.search(windows.effect, windows.covariance, candidates, design, windows.df)
        p_value = p_value if odd_days else search.p_value
        is_shock = search.best.shape.kind == "shock"
        if search.p_value >= LEVEL or not is_shock or len(odd_days) == SHOCKS:
            break
        odd_days.append(int(search.best.shape.at))
        design = np.column_stack([design, search.best.shape.values])
    shape = search.best if search.p_value < LEVEL and not is_shock else None
    drifts_on = (
        shape is not None and shape.shape.kind == "decay" and _trend_left(series, design, shape)
    )
    return Change(p_value, shape, search.matches, tuple(sorted(odd_days)), design, drifts_on)


def _trend_left(series: Series, design: Floats, decay: shapes.Match) -> bool:
    windows = series.windows
    with_decay = np.column_stack([design, decay.shape.values])
    line = [shapes.trend(series.times)]
    try:
        search = shapes.search(windows.effect, windows.covariance, line, with_decay, windows.df)
    except Refusal:
        return False
    return tail(search.best.z).p_value < LEVEL


def has_effect(arms: Pair) -> bool:
    """Whether both variants have enough units, and something to measure."""
    return all(
        arm is not None and arm.n >= MIN_UNITS and arm.mean[1] != 0 and arm.comoment[0, 0] > 0
        for arm in arms
    )
