"""Test how an effect changes over time: trend, decay, rhythm, events."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from abeval.experiment.sections import Event
from abeval.inference.means_and_ratios import Pair
from abeval.metrics.definition import Metric
from abeval.results import format as fmt
from abeval.results import windows as records
from abeval.stats import shapes
from abeval.stats.distributions import compute_p_value
from abeval.stats.effects import effect_from_difference
from abeval.stats.records import Bools, Floats, Integers, Refusal
from abeval.time.peeking import conclude
from abeval.time.windows import Course

_LEVEL = 0.01
"""Level of the tests of stability and novelty."""

_MIN_DAYS = 4
_MIN_UNITS = 30
WEEK = 7
_SETTLED = 1 / 6
"""Longest time constant of a decay, as a share of the days."""

_SHOCKS = 2
"""Largest number of single days to set aside in the search."""


@dataclass(frozen=True)
class Series:
    """Hold daily effects that can be compared, with their covariance.

    `times` are positions on the axis; `weeks` are whole weeks among the days, as indices into
    `times`.
    """

    times: Integers
    windows: shapes.Windows
    weeks: tuple[tuple[int, ...], ...]

    def fit(self, *columns: Floats) -> shapes.Fit:
        """Fit the effects by columns."""
        windows, design = self.windows, np.column_stack(columns)
        return shapes.fit(windows.effect, windows.covariance, design, windows.df)

    def search(self, candidates: Sequence[shapes.Shape], design: Floats) -> shapes.Search:
        """Search the shape that explains most beside a design."""
        windows = self.windows
        return shapes.search(windows.effect, windows.covariance, candidates, design, windows.df)

    @property
    def ones(self) -> Floats:
        """Return the column of a constant effect."""
        return np.ones((len(self.times), 1))

    @property
    def nuisance(self) -> Floats:
        """Return a constant, and from two whole weeks on a weekly rhythm."""
        if len(self.weeks) < 2:
            return self.ones
        return np.hstack([self.ones, shapes.build_rhythm_columns(self.times)])


class Change(NamedTuple):
    """Describe how a series of effects changes.

    `shape` is the trend or decay that is significant, or None. `p_value` is of the best shape,
    before the single days in `shocks` were left out; `matches` are the shapes of the last search;
    `design` has constant, rhythm and shocks.
    """

    p_value: float
    shape: shapes.Match | None
    matches: tuple[shapes.Match, ...]
    shocks: tuple[int, ...]
    design: Floats

    @property
    def kind(self) -> shapes.Kind | None:
        """Return the significant shape of the daily effects, such as a trend."""
        return None if self.shape is None else self.shape.shape.kind


def _build_series(course: Course) -> Series:
    """Build the series of whole days on which both variants can be measured.

    Raises:
        Refusal: `too_few_units` for fewer than `_MIN_DAYS` such days; as `shapes.window_effects`.
    """
    partial = course.axis.partial
    days = [d for d, arms in enumerate(course.each_day()) if not partial[d] and has_effect(arms)]
    if len(days) < _MIN_DAYS:
        what = f"{len(days)} whole days with {_MIN_UNITS} units in each variant"
        raise Refusal("too_few_units", f"{what} and values that vary; {_MIN_DAYS} are needed")
    control, treatment = course.sum_each_day(days)
    # With no more units than days, the covariance of days has no inverse.
    if min(control.n, treatment.n) <= len(days):
        raise Refusal("too_few_units", f"{len(days)} days need more units than days")
    return Series(
        np.array(days), shapes.estimate_window_effects(control, treatment), _list_whole_weeks(days)
    )


def _list_whole_weeks(days: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Find complete weeks from the first day on, as indices into `days`.

    Example:
        >>> [len(week) for week in _list_whole_weeks(range(1, 17))], _list_whole_weeks([0, 2, 3])
        ([7, 7], ())
    """
    index = {day: i for i, day in enumerate(days)}
    starts = range(days[0], days[-1] - WEEK + 2, WEEK)
    weeks = [range(start, start + WEEK) for start in starts]
    return tuple(
        tuple(index[day] for day in week) for week in weeks if all(day in index for day in week)
    )


def _find_change(series: Series) -> Change:
    """Search a trend or decay; set aside single odd days that explain more."""
    times = series.times
    # A decay that takes longer looks like a trend.
    longest = (times[-1] + 1 - times[0]) * _SETTLED
    decays = shapes.build_decays(times - times[0], longest)
    candidates = [shapes.build_trend(times), *decays, *shapes.build_shocks(times)]
    design, odd_days = series.nuisance, list[int]()
    search = series.search(candidates, design)
    # Kept from the first search: later ones are chosen by what it found.
    p_value = search.p_value
    while search.p_value < _LEVEL and search.best.shape.kind == "shock" and len(odd_days) < _SHOCKS:
        odd_days.append(int(search.best.shape.at))
        design = np.column_stack([design, search.best.shape.values])
        search = series.search(candidates, design)
    is_found = search.p_value < _LEVEL and search.best.shape.kind != "shock"
    shape = search.best if is_found else None
    return Change(p_value, shape, search.matches, tuple(sorted(odd_days)), design)


def _has_trend_beside_decay(series: Series, change: Change) -> bool:
    """Tell whether a trend remains beside a decay."""
    if change.shape is None or change.kind != "decay":
        return False
    with_decay = np.column_stack([change.design, change.shape.shape.values])
    try:
        search = series.search([shapes.build_trend(series.times)], with_decay)
    except Refusal:
        return False
    return compute_p_value(search.best.z) < _LEVEL


def has_effect(arms: Pair) -> bool:
    """Tell whether both variants have enough units, and something to measure."""
    return all(
        arm is not None and arm.n >= _MIN_UNITS and arm.mean[1] != 0 and arm.comoment[0, 0] > 0
        for arm in arms
    )


_Z = 1.959963984540054
_FITS = 3.841458820694124
"""Chi-square distance within which time constants fit as well as the best, at 95 %."""


class Decay(NamedTuple):
    """A decay over days since entry, its size in standard errors, and weekly effects.

    `z` is 0 if it is not significant.
    """

    row: records.Novelty
    z: float = 0.0
    weeks: tuple[records.WeekSinceEntry, ...] = ()


def find_decay(course: Course) -> Decay:
    """Fit a decay over days since entry, of all units."""
    bare = records.Novelty(course.metric.name, course.variant, None, None, 0)
    try:
        series = _build_series(course)
        change = _find_change(series)
    except Refusal as refusal:
        return Decay(replace(bare, reason=str(refusal)))
    weeks = _list_weeks(course, series)
    decays = [match for match in change.matches if match.shape.kind == "decay"]
    if not decays:
        short = f"{len(series.times)} days since entry are too few for a decay"
        return Decay(replace(bare, days=len(series.times), reason=short), 0.0, weeks)
    best = max(decays, key=lambda match: abs(match.z))
    # The long run is known over the time constants that fit as well.
    alike = [match.shape for match in decays if match.z**2 >= best.z**2 - _FITS]
    fits = [series.fit(change.design, np.array(shape.values)) for shape in alike]
    level, height = float(fits[alike.index(best.shape)].coefficients[0]), best.coefficient
    ends = [(float(fit.coefficients[0]), math.sqrt(fit.covariance[0, 0])) for fit in fits]
    # Novel is what is better at first than later.
    is_better = height * course.metric.direction.sign > 0
    is_significant = change.kind == "decay"
    row = replace(
        bare,
        word=("novelty" if is_better else "primacy") if is_significant else None,
        p_value=change.p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + height,
        long_run=level,
        long_run_low=min(at - _Z * se for at, se in ends),
        long_run_high=max(at + _Z * se for at, se in ends),
        tau=best.shape.at,
    )
    return Decay(row, abs(best.z) if is_significant else 0.0, weeks)


def _list_weeks(course: Course, series: Series) -> tuple[records.WeekSinceEntry, ...]:
    """List the mean daily effects of whole weeks since entry, with their errors."""
    weights = np.zeros((len(series.weeks), len(series.times)))
    for row, week in zip(weights, series.weeks, strict=True):
        row[list(week)] = 1 / WEEK
    effects = weights @ series.windows.effect
    covariance = weights @ series.windows.covariance @ weights.T
    return tuple(
        records.WeekSinceEntry(
            metric=course.metric.name,
            variant=course.variant,
            week=i + 1,
            scale=series.windows.scale,
            effect=float(effects[i]),
            se=math.sqrt(covariance[i, i]),
            covariance=float(covariance[i, 0]),
        )
        # The day of entry begins the first week, or there is none.
        for i in range(len(effects) if series.times[0] == 0 else 0)
    )


def _mark_event_days(event: Event, series: Series, labels: Sequence[str]) -> Bools:
    """Tell whether each day of the series touches the event."""
    start, end = (str(bound.date()) for bound in event.bounds)
    # An event that ends at midnight does not touch the day that then begins.
    ends_within = event.bounds[1].time() != event.bounds[1].min.time()
    return np.array(
        [start <= labels[day] < end or (ends_within and labels[day] == end) for day in series.times]
    )


def compare_event_days(course: Course, event: Event, series: Series) -> records.EventRow:
    """Test the effect inside an event against the effect outside."""
    inside = _mark_event_days(event, series, course.axis.labels)
    row = records.EventRow(course.metric.name, course.variant, event.name, int(inside.sum()))
    if row.days in (0, len(inside)):
        where = "no" if not row.days else "every"
        return replace(row, reason=f"{where} whole day of the log is inside the event")
    try:
        fit, level = series.fit(series.ones, inside.astype(float)), series.fit(series.ones)
        outside, more = (float(c) for c in fit.coefficients)
        se = math.sqrt(fit.covariance[1, 1])
        test = effect_from_difference(outside, outside + more, more, se)
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


_TOLERANCE = 0.05
"""Share of control by which a stable effect may change; or by the effect, if larger."""


def judge_stability(course: Course, decay: Decay) -> tuple[records.Stability, Series | None]:
    """Judge the stability of one metric in one variant by calendar day.

    Also returns its daily effects, if there are any.
    """
    bare = records.Stability(course.metric.name, course.variant, "too_early", "")
    try:
        series = _build_series(course)
        change = _find_change(series)
        row = _gather_evidence(bare, series, change, course.axis.labels)
    except Refusal as refusal:
        return replace(bare, reason=str(refusal)), None
    verdict, reason = _choose_verdict(series, change, row, decay, course.metric.unit)
    return replace(row, verdict=verdict, reason=reason), series


def _gather_evidence(
    bare: records.Stability, series: Series, change: Change, labels: Sequence[str]
) -> records.Stability:
    """Return the numbers that a verdict rests on."""
    windows = series.windows
    late = shapes.contrast(windows.effect, windows.covariance, _weigh_late_against_early(series))
    level = series.fit(series.nuisance)
    slope = series.search([shapes.build_trend(series.times)], series.nuisance).best
    rhythm = None
    if len(series.weeks) >= 2:
        rhythm = shapes.compare_fits(series.fit(series.ones), level, windows.df)
    return replace(
        bare,
        scale=windows.scale,
        days=len(series.times),
        weeks=len(series.weeks),
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        wald_p_value=level.q_p_value,
        slope=slope.coefficient,
        slope_p_value=compute_p_value(slope.z),
        late_less_early=late.difference,
        late_less_early_low=late.low,
        late_less_early_high=late.high,
        late_less_early_p_value=late.p_value,
        change_p_value=change.p_value,
        change=change.kind,
        shocks=tuple(labels[day] for day in change.shocks),
        rhythm_p_value=rhythm,
    )


def _weigh_late_against_early(series: Series) -> Floats:
    """Weigh late whole weeks against early ones, or halves without two."""
    weeks, days = series.weeks, len(series.times)
    early, late = list(range(days // 2)), list(range(days - days // 2, days))
    # Whole weeks have every weekday once, so a weekly rhythm cancels.
    if half := len(weeks) // 2:
        early, late = [*chain(*weeks[:half])], [*chain(*weeks[-half:])]
    weights = np.zeros(days)
    weights[early], weights[late] = -1 / len(early), 1 / len(late)
    return weights


def _choose_verdict(
    series: Series, change: Change, row: records.Stability, decay: Decay, unit: str
) -> tuple[records.StabilityVerdict, str]:
    weeks, windows = row.weeks, series.windows
    caveat = "" if weeks >= 2 else "; in fewer than two whole weeks a weekly rhythm looks the same"
    novelty, z, _ = decay
    if z and z >= abs(0.0 if change.shape is None else change.shape.z):
        tau = novelty.tau
        return "settling", f"the effect changes with days since entry, time constant {tau:g} days"
    if change.shape is not None:
        if change.kind == "trend" or _has_trend_beside_decay(series, change):
            return "drifting", f"the effect changes steadily over the days{caveat}"
        tau = change.shape.shape.at
        return "settling", f"the effect changed early, with a time constant of {tau:g} days{caveat}"
    if weeks < 2:
        return "too_early", f"{weeks} whole weeks; at least two are needed to compare weeks"
    relative = windows.scale == "relative"
    size = 1.0 if relative else float(np.mean(np.abs(windows.control)))
    reach = max(abs(row.effect or 0.0), _TOLERANCE * size)
    width = ((row.late_less_early_high or 0.0) - (row.late_less_early_low or 0.0)) / 2
    change_of = fmt.format_margin(reach, relative, unit)
    if width > reach:
        seen = fmt.format_margin(width, relative, unit)
        return "too_early", f"a change of {change_of} would not have been detected (± {seen})"
    apart = f", apart from {', '.join(row.shocks)}" if row.shocks else ""
    return "stable", f"no change detected{apart}; a change of {change_of} or more would have shown"


def compare_rolling_windows(
    metric: Metric, rows: Sequence[records.WindowRow]
) -> tuple[float | None, float | None]:
    """Count which of the widest rolling windows agree with the whole effect."""
    rows = [row for row in rows if row.difference is not None]
    rolling = [row for row in rows if row.kind == "rolling"]
    cumulative = [row for row in rows if row.kind == "cumulative"]
    if not rolling or not cumulative:
        return None, None
    widest = max(row.days for row in rolling)
    of_widest = [row for row in rolling if row.days == widest]
    # The last cumulative window is the whole test.
    falls, conclusion = _conclude_row(metric, cumulative[-1])
    seen = [_conclude_row(metric, row) for row in of_widest]
    same_sign = sum(sign == falls for sign, _ in seen)
    agree = sum(rolling_conclusion == conclusion for _, rolling_conclusion in seen)
    return same_sign / len(of_widest), agree / len(of_widest)


def _conclude_row(metric: Metric, row: records.WindowRow) -> tuple[bool, records.Declared]:
    """Return whether an effect is below zero, and the conclusion of its interval."""
    ends = row.difference_low or 0.0, row.difference_high or 0.0
    return (row.difference or 0.0) < 0, conclude(metric.direction, *ends)
