"""Novelty and primacy: effects that decay, or grow, with the days since a unit's entry."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abeval.metrics.definition import Metric
from abeval.results.windows import Novelty
from abeval.stats import shapes
from abeval.stats.distributions import tail
from abeval.stats.records import Interval, Refusal
from abeval.time.axes import Axis
from abeval.time.change import LEVEL, WEEK, Change, Series, find, series_of

Floats = NDArray[np.float64]
_Z = 1.959963984540054
_FITS = 3.841458820694124
"""Time constants whose chi-square is this close to the best's fit as well, at 95 %."""


@dataclass(frozen=True)
class Decays:
    """The decay over all units, then by cohort of entry.

    Attributes:
        rows: What was found; all units first.
        z: How far the decay of all units stands out, where it earned its word; else 0.
    """

    rows: tuple[Novelty, ...]
    z: float = 0.0


def find_decays(metric: Metric, axis: Axis, variant: str, dates: Sequence[str]) -> Decays:
    """Fit a decay over all units, then by cohort of entry: the first day's, then by week.

    Args:
        metric: The metric.
        axis: Days since entry.
        variant: The variant compared with control.
        dates: Date of each cohort.
    """
    whole = Novelty(metric.name, variant, "all", None, None, 0)
    try:
        series = series_of(axis, variant)
        change = find(series)
    except Refusal as refusal:
        return Decays((replace(whole, reason=str(refusal)),))
    decays = [match for match in change.matches if match.shape.kind == "decay"]
    if not decays:
        short = f"{len(series.times)} days since entry are too few for a decay"
        return Decays((replace(whole, days=len(series.times), reason=short),))
    best = max(decays, key=lambda match: abs(match.z))
    found = _fitted(whole, metric, series, change, best, decays)
    cohorts = [_of_cohort(found, metric, axis, variant, group, dates) for group in _groups(axis)]
    rows = (found, *(row for row in cohorts if row is not None))
    return Decays(rows, 0.0 if found.word is None else abs(best.z))


def _fitted(
    row: Novelty,
    metric: Metric,
    series: Series,
    change: Change,
    best: shapes.Match,
    decays: Sequence[shapes.Match],
) -> Novelty:
    earned = change.shape is not None and change.shape.shape.kind == "decay"
    wears_off = best.coefficient * metric.direction.sign > 0
    level, long_run = _long_run(series, change.design, best, decays)
    return replace(
        row,
        word=("novelty" if wears_off else "primacy") if earned else None,
        p_value=change.p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + best.coefficient,
        long_run=level,
        long_run_low=long_run.low,
        long_run_high=long_run.high,
        tau=best.shape.at,
    )


def _long_run(
    series: Series, design: Floats, best: shapes.Match, decays: Sequence[shapes.Match]
) -> tuple[float, Interval]:
    """The level that the decay comes to, and its interval over the time constants that fit."""
    close = [match for match in decays if match.z**2 >= best.z**2 - _FITS]
    ends = []
    for match in close:
        found = _decay_fit(series, design, match.shape)
        level, se = float(found.coefficients[0]), math.sqrt(found.covariance[0, 0])
        ends.append((level - _Z * se, level + _Z * se))
    level = float(_decay_fit(series, design, best.shape).coefficients[0])
    return level, Interval(min(low for low, _ in ends), max(high for _, high in ends))


def _decay_fit(series: Series, design: Floats, decay: shapes.Shape) -> shapes.Fit:
    columns = np.column_stack([design, decay.values])
    return shapes.fit(series.windows.effect, series.windows.covariance, columns)


def _groups(axis: Axis) -> list[tuple[int, ...]]:
    """The first day's cohort, then those of each week from it on."""
    first = min(c for group in axis.strata for c in group)
    last = max(c for group in axis.strata for c in group)
    weeks = [range(s, min(s + WEEK, last + 1)) for s in range(first + 1, last + 1, WEEK)]
    return [(first,), *(tuple(week) for week in weeks)]


def _of_cohort(
    whole: Novelty,
    metric: Metric,
    axis: Axis,
    variant: str,
    cohorts: Sequence[int],
    dates: Sequence[str],
) -> Novelty | None:
    """The fit of one group of cohorts at the time constant of all; None where it is too small."""
    try:
        series = series_of(axis.of_cohorts(cohorts), variant)
        decay = shapes.decays(series.times, math.inf)
        (same,) = [shape for shape in decay if shape.at == whole.tau]
        found = _decay_fit(series, series.nuisance, same)
    except Refusal:
        return None
    level, amount = float(found.coefficients[0]), float(found.coefficients[-1])
    se, amount_se = (math.sqrt(found.covariance[i, i]) for i in (0, -1))
    p_value = tail(amount / amount_se).p_value
    wears_off = amount * metric.direction.sign > 0
    return replace(
        whole,
        cohort=" to ".join(dict.fromkeys([dates[cohorts[0]], dates[cohorts[-1]]])),
        word=("novelty" if wears_off else "primacy") if p_value < LEVEL else None,
        p_value=p_value,
        days=len(series.times),
        scale=series.windows.scale,
        start=level + amount,
        long_run=level,
        long_run_low=level - _Z * se,
        long_run_high=level + _Z * se,
    )
