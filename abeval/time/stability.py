"""One verdict per metric: stable, settling, drifting, or too early to say.

`time/analysis.py` calls it with a `Course` on the calendar and the decays of `time/novelty.py`; the
verdict goes into the `TimeResult`, the daily effects to `time/events.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from abeval.metrics.definition import Metric
from abeval.results import format as fmt
from abeval.results.windows import Declared, Stability, StabilityVerdict, WindowRow
from abeval.stats import shapes
from abeval.stats.records import Effect, Refusal
from abeval.time.change import Change, Decays, Series, find_change, series_of
from abeval.time.peeking import declared
from abeval.time.windows import Course

TOLERANCE = 0.05
"""Share of control: a change smaller than this, or than the effect, leaves an effect stable."""


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        series: The daily effects.
        change: How they change.
        late: Effect of the late whole weeks less that of as many early ones.
    """

    series: Series
    change: Change
    late: Effect


def stability_of(course: Course, decays: Decays) -> tuple[Stability, Series | None]:
    """The verdict on one metric in one variant, and its daily effects, None if it has none.

    Args:
        course: One metric in one variant, by day of the calendar.
        decays: Its decays over days since entry.
    """
    bare = Stability(course.metric.name, course.variant, "too_early", "")
    try:
        series = series_of(course)
        evidence = Evidence(series, find_change(series), _late_less_early(series))
        row = _evidence_row(bare, evidence, course.axis.labels)
    except Refusal as refusal:
        return replace(bare, reason=str(refusal)), None
    verdict, reason = _verdict(evidence, row, decays, course.metric.unit)
    return replace(row, verdict=verdict, reason=reason), series


def _evidence_row(bare: Stability, evidence: Evidence, labels: Sequence[str]) -> Stability:
    series, change, late = evidence.series, evidence.change, evidence.late
    windows = series.windows
    level = shapes.fit(windows.effect, windows.covariance, series.nuisance, windows.df)
    line = shapes.trend(series.times)
    slope = shapes.search(windows.effect, windows.covariance, [line], series.nuisance, windows.df)
    return replace(
        bare,
        scale=windows.scale,
        days=len(series.times),
        weeks=len(series.weeks),
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        wald_p_value=level.q_p_value,
        slope=slope.best.coefficient,
        slope_p_value=float(2 * special.ndtr(-abs(slope.best.z))),
        late_less_early=late.difference,
        late_less_early_low=late.low,
        late_less_early_high=late.high,
        late_less_early_p_value=late.p_value,
        change_p_value=change.p_value,
        change=None if change.shape is None else change.shape.shape.kind,
        shocks=tuple(labels[day] for day in change.shocks),
        rhythm_p_value=_rhythm_p_value(series, level),
    )


def _rhythm_p_value(series: Series, with_rhythm: shapes.Fit) -> float | None:
    if len(series.weeks) < 2:
        return None
    windows = series.windows
    ones = np.ones((len(series.times), 1))
    without = shapes.fit(windows.effect, windows.covariance, ones, windows.df)
    return shapes.added_p_value(without, with_rhythm, windows.df)


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
    evidence: Evidence, row: Stability, decays: Decays, unit: str
) -> tuple[StabilityVerdict, str]:
    change, late, weeks = evidence.change, evidence.late, row.weeks
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
    reach = max(abs(row.effect or 0.0), _tolerance(evidence.series))
    width = (late.high - late.low) / 2
    relative = row.scale == "relative"
    change_of = fmt.margin(reach, relative, unit)
    if width > reach:
        seen = fmt.margin(width, relative, unit)
        return "too_early", f"a change of {change_of} would not have been detected (± {seen})"
    apart = f", apart from {', '.join(row.shocks)}" if row.shocks else ""
    return "stable", f"no change detected{apart}; one of {change_of} would have been detected"


def _tolerance(series: Series) -> float:
    windows = series.windows
    size = 1.0 if windows.scale == "relative" else float(np.mean(np.abs(windows.control)))
    return TOLERANCE * size


def agreement(metric: Metric, rows: Sequence[WindowRow]) -> tuple[float | None, float | None]:
    """Shares of the widest rolling windows that have the sign, and the conclusion, of the whole."""
    rows = [row for row in rows if row.difference is not None]
    rolling = [row for row in rows if row.kind == "rolling"]
    cumulative = [row for row in rows if row.kind == "cumulative"]
    if not rolling or not cumulative:
        return None, None
    whole, widest = cumulative[-1], max(row.days for row in rolling)
    widest_rows = [row for row in rolling if row.days == widest]
    same_sign = sum(_sign(row) == _sign(whole) for row in widest_rows)
    conclusion = _conclusion(metric, whole)
    agree = sum(_conclusion(metric, row) == conclusion for row in widest_rows)
    return same_sign / len(widest_rows), agree / len(widest_rows)


def _sign(row: WindowRow) -> float:
    return math.copysign(1, row.difference or 0)


def _conclusion(metric: Metric, row: WindowRow) -> Declared:
    return declared(metric.direction, row.difference_low or 0.0, row.difference_high or 0.0)
