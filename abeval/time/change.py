"""Test how an effect changes over time: breaks, trends, rhythm, decay, and events."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from abeval.experiment.sections import Event
from abeval.inference.means_and_ratios import Pair
from abeval.metrics.definition import Metric
from abeval.results import format as fmt
from abeval.results.windows import (
    Declared,
    EventRow,
    Novelty,
    Stability,
    StabilityVerdict,
    WindowRow,
)
from abeval.stats import shapes
from abeval.stats.distributions import two_sided
from abeval.stats.effects import from_difference
from abeval.stats.records import Bools, Effect, Floats, Integers, Refusal
from abeval.stats.shapes import Windows, window_effects
from abeval.time.peeking import declared
from abeval.time.windows import Axis, Course

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

    def fit(self, design: Floats) -> shapes.Fit:
        """Fit the effects by the columns of a design."""
        return shapes.fit(self.windows.effect, self.windows.covariance, design, self.windows.df)

    def search(self, candidates: Sequence[shapes.Shape], design: Floats) -> shapes.Search:
        """Search the shape that explains most beside a design."""
        windows = self.windows
        return shapes.search(windows.effect, windows.covariance, candidates, design, windows.df)

    @property
    def nuisance(self) -> Floats:
        """Return a constant, and from two whole weeks on a weekly rhythm."""
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
    """Return the whole days of an axis on which both variants have something to measure.

    Raises:
        Refusal: `too_few_units` for fewer than `MIN_DAYS` such days; as `windows.window_effects`.
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
    return Series(np.array(days), window_effects(control, treatment), whole_weeks(days))


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
    times = series.times
    longest = (times[-1] + 1 - times[0]) * SETTLED
    candidates = [
        shapes.trend(times),
        *shapes.decays(times - times[0], longest),
        *shapes.shocks(times),
    ]
    design, p_value = series.nuisance, 1.0
    odd_days: list[int] = []
    while True:
        search = series.search(candidates, design)
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
    with_decay = np.column_stack([design, decay.shape.values])
    try:
        search = series.search([shapes.trend(series.times)], with_decay)
    except Refusal:
        return False
    return two_sided(search.best.z) < LEVEL


def has_effect(arms: Pair) -> bool:
    """Tell whether both variants have enough units, and something to measure."""
    return all(
        arm is not None and arm.n >= MIN_UNITS and arm.mean[1] != 0 and arm.comoment[0, 0] > 0
        for arm in arms
    )


_Z = 1.959963984540054
_FITS = 3.841458820694124
"""Time constants whose chi-square is this close to the best's fit as well, at 95 %."""


@dataclass(frozen=True)
class Decays:
    """The decay over all units, then by cohort of entry.

    Attributes:
        rows: The fits; all units first.
        z: Size of the decay of all units in standard errors, 0 if it is not significant.
    """

    rows: tuple[Novelty, ...]
    z: float = 0.0


def find_decays(course: Course, dates: Sequence[str]) -> Decays:
    """Fit a decay over all units, then by cohort of entry: the first day's, then by week.

    Args:
        course: One metric in one variant, by days since entry.
        dates: Date of each cohort.
    """
    bare = Novelty(course.metric.name, course.variant, "all", None, None, 0)
    try:
        series = series_of(course)
        change = find_change(series)
    except Refusal as refusal:
        return Decays((replace(bare, reason=str(refusal)),))
    decays = [match for match in change.matches if match.shape.kind == "decay"]
    if not decays:
        short = f"{len(series.times)} days since entry are too few for a decay"
        return Decays((replace(bare, days=len(series.times), reason=short),))
    best = max(decays, key=lambda match: abs(match.z))
    significant = change.shape is not None and change.shape.shape.kind == "decay"
    # The long run is known over the time constants that fit as well.
    alike = [match for match in decays if match.z**2 >= best.z**2 - _FITS]
    ends = [_long_run(series, change.design, match.shape) for match in alike]
    level, _ = _long_run(series, change.design, best.shape)
    of_all = replace(
        bare,
        word=_word(course.metric, best.coefficient) if significant else None,
        p_value=change.p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + best.coefficient,
        long_run=level,
        long_run_low=min(at - _Z * se for at, se in ends),
        long_run_high=max(at + _Z * se for at, se in ends),
        tau=best.shape.at,
    )
    cohorts = [_of_cohort(of_all, course, group, dates) for group in _groups(course.axis)]
    rows = (of_all, *(row for row in cohorts if row is not None))
    return Decays(rows, max(abs(match.z) for match in decays) if significant else 0.0)


def _word(metric: Metric, amount: float) -> Literal["novelty", "primacy"]:
    """Novelty if the effect is first more in the metric's good direction than later."""
    return "novelty" if amount * metric.direction.sign > 0 else "primacy"


def _long_run(series: Series, design: Floats, decay: shapes.Shape) -> tuple[float, float]:
    """Return the level after a decay, and its standard error."""
    fit = series.fit(np.column_stack([design, decay.values]))
    return float(fit.coefficients[0]), math.sqrt(fit.covariance[0, 0])


def _groups(axis: Axis) -> list[tuple[int, ...]]:
    """Return the first day's cohort, then those of each week from it on."""
    cohorts = [cohort for group in axis.strata for cohort in group]
    first, last = min(cohorts), max(cohorts)
    weeks = [range(s, min(s + WEEK, last + 1)) for s in range(first + 1, last + 1, WEEK)]
    return [(first,), *(tuple(week) for week in weeks)]


def _of_cohort(
    of_all: Novelty, course: Course, cohorts: Sequence[int], dates: Sequence[str]
) -> Novelty | None:
    """Return the fit of some cohorts at the time constant of all; None where they are too small."""
    try:
        series = series_of(replace(course, axis=course.axis.of_cohorts(cohorts)))
        decays = shapes.decays(series.times, math.inf)
        (same,) = [shape for shape in decays if shape.at == of_all.tau]
        fit = series.fit(np.column_stack([series.nuisance, same.values]))
    except Refusal:
        return None
    level, amount = float(fit.coefficients[0]), float(fit.coefficients[-1])
    se, amount_se = (math.sqrt(fit.covariance[i, i]) for i in (0, -1))
    p_value = two_sided(amount / amount_se)
    return replace(
        of_all,
        cohort=" to ".join(dict.fromkeys([dates[cohorts[0]], dates[cohorts[-1]]])),
        word=_word(course.metric, amount) if p_value < LEVEL else None,
        p_value=p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + amount,
        long_run=level,
        long_run_low=level - _Z * se,
        long_run_high=level + _Z * se,
    )


def event_rows(
    metric: Metric, variant: str, events: Sequence[Event], series: Series, labels: Sequence[str]
) -> tuple[EventRow, ...]:
    """Test the effect inside each event against outside."""
    bare = [(event, EventRow(metric.name, variant, event.name, 0)) for event in events]
    return tuple(_event_row(row, series, _inside(event, series, labels)) for event, row in bare)


def _inside(event: Event, series: Series, labels: Sequence[str]) -> Bools:
    """Tell whether each day of the series touches the event."""
    start, end = (str(bound.date()) for bound in event.bounds)
    # An event that ends at midnight does not touch the day that then begins.
    ends_within = event.bounds[1].time() != event.bounds[1].min.time()
    return np.array(
        [start <= labels[day] < end or (ends_within and labels[day] == end) for day in series.times]
    )


def _event_row(bare: EventRow, series: Series, inside: Bools) -> EventRow:
    row = replace(bare, days=int(inside.sum()))
    if row.days in (0, len(inside)):
        where = "no" if not row.days else "every"
        return replace(row, reason=f"{where} whole day of the log is inside the event")
    design = np.column_stack([np.ones(len(inside)), inside])
    try:
        fit, level = series.fit(design), series.fit(design[:, :1])
        outside, more = (float(c) for c in fit.coefficients)
        test = from_difference(outside, outside + more, more, math.sqrt(fit.covariance[1, 1]))
    except Refusal as refusal:
        return replace(row, reason=str(refusal))
    return replace(
        row,
        scale=series.windows.scale,
        inside=test.treatment,
        outside=test.control,
        overall=float(level.coefficients[0]),
        difference=more,
        difference_low=test.low,
        difference_high=test.high,
        p_value=test.p_value,
    )


TOLERANCE = 0.05
"""Share of control: a change smaller than this, or than the effect, leaves an effect stable."""


def stability_of(course: Course, decays: Decays) -> tuple[Stability, Series | None]:
    """Judge one metric in one variant; return its daily effects too, None if it has none.

    Args:
        course: One metric in one variant, by day of the calendar.
        decays: Its decays over days since entry.
    """
    bare = Stability(course.metric.name, course.variant, "too_early", "")
    try:
        series = series_of(course)
        change, late = find_change(series), _late_less_early(series)
        row = _evidence(bare, series, change, late, course.axis.labels)
    except Refusal as refusal:
        return replace(bare, reason=str(refusal)), None
    verdict, reason = _verdict(series, change, row, decays, course.metric.unit)
    return replace(row, verdict=verdict, reason=reason), series


def _evidence(
    bare: Stability, series: Series, change: Change, late: Effect, labels: Sequence[str]
) -> Stability:
    """Return what a verdict rests on."""
    level = series.fit(series.nuisance)
    slope = series.search([shapes.trend(series.times)], series.nuisance).best
    rhythm = None
    if len(series.weeks) >= 2:
        without = series.fit(np.ones((len(series.times), 1)))
        rhythm = shapes.added_p_value(without, level, series.windows.df)
    return replace(
        bare,
        scale=series.windows.scale,
        days=len(series.times),
        weeks=len(series.weeks),
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        wald_p_value=level.q_p_value,
        slope=slope.coefficient,
        slope_p_value=float(2 * special.ndtr(-abs(slope.z))),
        late_less_early=late.difference,
        late_less_early_low=late.low,
        late_less_early_high=late.high,
        late_less_early_p_value=late.p_value,
        change_p_value=change.p_value,
        change=None if change.shape is None else change.shape.shape.kind,
        shocks=tuple(labels[day] for day in change.shocks),
        rhythm_p_value=rhythm,
    )


def _late_less_early(series: Series) -> Effect:
    """Whole weeks against whole weeks, or halves where there are not two."""
    weeks, days = series.weeks, len(series.times)
    half = len(weeks) // 2
    early = [day for week in weeks[:half] for day in week] or list(range(days // 2))
    late = [day for week in weeks[len(weeks) - half :] for day in week] if half else []
    late = late or list(range(days - days // 2, days))
    weights = np.zeros(days)
    weights[early], weights[late] = -1 / len(early), 1 / len(late)
    return shapes.contrast(series.windows.effect, series.windows.covariance, weights)


def _verdict(
    series: Series, change: Change, row: Stability, decays: Decays, unit: str
) -> tuple[StabilityVerdict, str]:
    weeks, windows = row.weeks, series.windows
    caveat = "" if weeks >= 2 else "; in fewer than two whole weeks a weekly rhythm looks the same"
    if decays.z and decays.z >= abs(0.0 if change.shape is None else change.shape.z):
        tau = decays.rows[0].tau
        return "settling", f"the effect changes with days since entry, time constant {tau:g} days"
    if change.shape is not None:
        if change.shape.shape.kind == "trend" or change.drifts_on:
            return "drifting", f"the effect changes steadily over the days{caveat}"
        tau = change.shape.shape.at
        return "settling", f"the effect changed early, with a time constant of {tau:g} days{caveat}"
    if weeks < 2:
        return "too_early", f"{weeks} whole weeks; at least two are needed to compare weeks"
    relative = windows.scale == "relative"
    size = 1.0 if relative else float(np.mean(np.abs(windows.control)))
    reach = max(abs(row.effect or 0.0), TOLERANCE * size)
    width = ((row.late_less_early_high or 0.0) - (row.late_less_early_low or 0.0)) / 2
    change_of = fmt.margin(reach, relative, unit)
    if width > reach:
        seen = fmt.margin(width, relative, unit)
        return "too_early", f"a change of {change_of} would not have been detected (± {seen})"
    apart = f", apart from {', '.join(row.shocks)}" if row.shocks else ""
    return "stable", f"no change detected{apart}; one of {change_of} would have been detected"


def agreement(metric: Metric, rows: Sequence[WindowRow]) -> tuple[float | None, float | None]:
    """Shares of the widest rolling windows that have the sign, and the conclusion, of the whole."""
    rows = [row for row in rows if row.difference is not None]
    rolling = [row for row in rows if row.kind == "rolling"]
    cumulative = [row for row in rows if row.kind == "cumulative"]
    if not rolling or not cumulative:
        return None, None
    whole, widest = cumulative[-1], max(row.days for row in rolling)
    of_widest = [row for row in rolling if row.days == widest]
    same_sign = sum(_sign(row) == _sign(whole) for row in of_widest)
    conclusion = _conclusion(metric, whole)
    agree = sum(_conclusion(metric, row) == conclusion for row in of_widest)
    return same_sign / len(of_widest), agree / len(of_widest)


def _sign(row: WindowRow) -> float:
    return math.copysign(1, row.difference or 0)


def _conclusion(metric: Metric, row: WindowRow) -> Declared:
    return declared(metric.direction, row.difference_low or 0.0, row.difference_high or 0.0)
