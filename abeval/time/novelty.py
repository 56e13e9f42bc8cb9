"""Novelty and primacy: effects that decay, or grow, with the days since a unit's entry.

`time/analysis.py` calls it with a `Course` of days since entry; the rows go into the `TimeResult`,
and `time/stability.py` decides by the decays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from abeval.metrics.definition import Metric
from abeval.results.windows import Novelty
from abeval.stats import shapes
from abeval.stats.distributions import tail
from abeval.stats.records import Floats, Interval, Refusal
from abeval.time.change import LEVEL, WEEK, Change, Series, find_change, series_of
from abeval.time.windows import Axis, Course

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
    of_all = _fitted(bare, course.metric, series, change, decays)
    cohorts = [_of_cohort(of_all, course, group, dates) for group in _groups(course.axis)]
    rows = (of_all, *(row for row in cohorts if row is not None))
    return Decays(rows, 0.0 if of_all.word is None else max(abs(match.z) for match in decays))


def _fitted(
    bare: Novelty, metric: Metric, series: Series, change: Change, decays: Sequence[shapes.Match]
) -> Novelty:
    best = max(decays, key=lambda match: abs(match.z))
    significant = change.shape is not None and change.shape.shape.kind == "decay"
    level, long_run = _long_run(series, change.design, best, decays)
    return replace(
        bare,
        word=_word(metric, best.coefficient) if significant else None,
        p_value=change.p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + best.coefficient,
        long_run=level,
        long_run_low=long_run.low,
        long_run_high=long_run.high,
        tau=best.shape.at,
    )


def _word(metric: Metric, amount: float) -> Literal["novelty", "primacy"]:
    """Novelty if the effect is first more in the metric's good direction than later."""
    return "novelty" if amount * metric.direction.sign > 0 else "primacy"


def _long_run(
    series: Series, design: Floats, best: shapes.Match, decays: Sequence[shapes.Match]
) -> tuple[float, Interval]:
    """The level after the decay, and its interval over the time constants that fit."""
    ends = []
    for match in decays:
        if match.z**2 >= best.z**2 - _FITS:
            fit = _decay_fit(series, design, match.shape)
            level, se = float(fit.coefficients[0]), math.sqrt(fit.covariance[0, 0])
            ends.append((level - _Z * se, level + _Z * se))
    level = float(_decay_fit(series, design, best.shape).coefficients[0])
    return level, Interval(min(low for low, _ in ends), max(high for _, high in ends))


def _decay_fit(series: Series, design: Floats, decay: shapes.Shape) -> shapes.Fit:
    columns = np.column_stack([design, decay.values])
    return shapes.fit(series.windows.effect, series.windows.covariance, columns, series.windows.df)


def _groups(axis: Axis) -> list[tuple[int, ...]]:
    """The first day's cohort, then those of each week from it on."""
    first = min(c for group in axis.strata for c in group)
    last = max(c for group in axis.strata for c in group)
    weeks = [range(s, min(s + WEEK, last + 1)) for s in range(first + 1, last + 1, WEEK)]
    return [(first,), *(tuple(week) for week in weeks)]


def _of_cohort(
    of_all: Novelty, course: Course, cohorts: Sequence[int], dates: Sequence[str]
) -> Novelty | None:
    """The fit of some cohorts at the time constant of all; None where they are too small."""
    try:
        series = series_of(replace(course, axis=course.axis.of_cohorts(cohorts)))
        decays = shapes.decays(series.times, math.inf)
        (same,) = [shape for shape in decays if shape.at == of_all.tau]
        fit = _decay_fit(series, series.nuisance, same)
    except Refusal:
        return None
    level, amount = float(fit.coefficients[0]), float(fit.coefficients[-1])
    se, amount_se = (math.sqrt(fit.covariance[i, i]) for i in (0, -1))
    p_value = tail(amount / amount_se).p_value
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
