"""One verdict per metric: stable, settling, drifting, or too early to say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from abeval.metrics.definition import Metric
from abeval.results.windows import Stability, Verdict, WindowRow
from abeval.stats import shapes, stability
from abeval.stats.records import Effect, Refusal
from abeval.time.axes import Axis
from abeval.time.change import WEEK, Change, Series, find, series_of
from abeval.time.novelty import Decays
from abeval.time.peeking import declared

TOLERANCE = 0.05
"""Share of control: a change smaller than this, or than the effect, leaves an effect stable."""


@dataclass(frozen=True)
class Judged:
    """The verdict and what it rests on.

    Attributes:
        row: The verdict with its evidence.
        series: The daily effects, None where they were refused.
    """

    row: Stability
    series: Series | None


def judge(metric: Metric, axis: Axis, variant: str, decays: Decays) -> Judged:
    """The verdict on one metric in one variant.

    Args:
        metric: The metric.
        axis: Days of the calendar.
        variant: The variant compared with control.
        decays: What days since entry have shown.
    """
    bare = Stability(metric.name, variant, "too_early", "")
    try:
        series = series_of(axis, variant)
        change = find(series)
        late = _late_less_early(series)
        evidence = _evidence(bare, axis, series, change, late)
    except Refusal as refusal:
        return Judged(replace(bare, reason=str(refusal)), None)
    verdict, reason = _verdict(series, change, late, evidence, decays)
    return Judged(replace(evidence, verdict=verdict, reason=reason), series)


def _evidence(
    bare: Stability, axis: Axis, series: Series, change: Change, late: Effect
) -> Stability:
    windows = series.windows
    level = shapes.fit(windows.effect, windows.covariance, series.nuisance)
    line = shapes.trend(series.times)
    slope = shapes.search(windows.effect, windows.covariance, [line], series.nuisance)
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
        shocks=tuple(axis.labels[day] for day in change.shocks),
        rhythm_p_value=_rhythm(series, level),
    )


def _rhythm(series: Series, with_rhythm: shapes.Fit) -> float | None:
    if len(series.weeks) < 2:
        return None
    windows = series.windows
    ones = np.ones((len(series.times), 1))
    without = shapes.fit(windows.effect, windows.covariance, ones)
    return float(special.chdtrc(WEEK - 1, max(without.q - with_rhythm.q, 0.0)))


def _late_less_early(series: Series) -> Effect:
    """Whole weeks against whole weeks, or halves where there are not two."""
    weeks, days = series.weeks, len(series.times)
    half = len(weeks) // 2
    early = [day for week in weeks[:half] for day in week] or list(range(days // 2))
    late = [day for week in weeks[len(weeks) - half :] for day in week] if half else []
    late = late or list(range(days - days // 2, days))
    weights = np.zeros(days)
    weights[early], weights[late] = -1 / len(early), 1 / len(late)
    return stability.contrast(series.windows.effect, series.windows.covariance, weights)


def _verdict(
    series: Series,
    change: Change,
    late: Effect,
    evidence: Stability,
    decays: Decays,
) -> tuple[Verdict, str]:
    weeks = len(series.weeks)
    caveat = "" if weeks >= 2 else "; in fewer than two whole weeks a weekly rhythm looks alike"
    if decays.z and decays.z >= abs(0.0 if change.shape is None else change.shape.z):
        tau = decays.rows[0].tau
        return "settling", f"the effect changes with days since entry, time constant {tau:g} days"
    if change.shape is not None:
        if change.shape.shape.kind == "trend" or change.drifts_on:
            return "drifting", f"the effect changes steadily over the days{caveat}"
        tau = change.shape.shape.at
        return "settling", f"the effect changed early, with a time constant of {tau:g} days{caveat}"
    if weeks < 2:
        return "too_early", f"{weeks} whole weeks; whole weeks are compared from two on"
    reach = max(abs(evidence.effect or 0.0), _tolerance(series))
    width = (late.high - late.low) / 2
    if width > reach:
        return "too_early", f"a change of {reach:.3g} would not have been seen (± {width:.3g})"
    apart = f", apart from {', '.join(evidence.shocks)}" if evidence.shocks else ""
    return "stable", f"no change found{apart}, and one of {reach:.3g} would have been seen"


def _tolerance(series: Series) -> float:
    windows = series.windows
    size = 1.0 if windows.scale == "relative" else float(np.mean(np.abs(windows.control)))
    return TOLERANCE * size


def agreement(metric: Metric, rows: Sequence[WindowRow]) -> tuple[float | None, float | None]:
    """Shares of the widest rolling windows that have the sign, and the conclusion, of the whole."""
    rows = [row for row in rows if row.difference is not None]
    rolling = [row for row in rows if row.kind == "rolling"]
    whole = [row for row in rows if row.kind == "cumulative"]
    if not rolling or not whole:
        return None, None
    widest = max(row.days for row in rolling)
    compared = [row for row in rolling if row.days == widest]
    of_whole = _says(metric, whole[-1])
    signs = [math.copysign(1, row.difference or 0) for row in (*compared, whole[-1])]
    same = sum(sign == signs[-1] for sign in signs[:-1])
    agree = sum(_says(metric, row) == of_whole for row in compared)
    return same / len(compared), agree / len(compared)


def _says(metric: Metric, row: WindowRow) -> str:
    return declared(metric.direction, row.difference_low or 0.0, row.difference_high or 0.0)
