"""How skewed the values behind windows are, from the days and from all of them together.

Windows are sums over pairs of days, which have no third moments: those of every day and of the
whole period are summed beside them. With these, a day and the whole are judged as in the scorecard;
other windows take a skewness in between. `time/time_sums.py` asks for them, `time/analysis.py` for
what is known of a metric in a variant, and `time/axes.py` judges by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import FEW_UNITS, FEW_VALUES, with_units
from abeval.aggregates.metric_queries import MetricQueries
from abeval.agreement.causes.serving import moments_by, values_of
from abeval.inference.aa import skewness_of
from abeval.inference.comparison import Arms
from abeval.inference.special_tests import Shape
from abeval.logs.unit_arrays import Units
from abeval.metrics.definition import Metric, scales
from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.moments import Units as Values
from abeval.stats.records import Refusal
from abeval.stats.split_moments import Skewed
from abeval.time.day_sums import MetricDays, Span
from abeval.time.time_sums import SourceSums

ByVariant = Mapping[str, Moments]
"""Variant → moments of (y, x), with third ones."""


@dataclass(frozen=True)
class Thirds:
    """One metric's moments with third ones: of each day, and of all days together."""

    days: Mapping[str, ByVariant]
    whole: ByVariant


class Known(NamedTuple):
    """What is known of a metric's skewness in a variant and control.

    Attributes:
        windows: Moments of both in windows of the calendar: its days, whether units count from
            entry on.
        shape: How skewed values are in others.
    """

    windows: Mapping[tuple[Span, bool], tuple[Moments, Moments]]
    shape: Shape


def thirds_of(
    queries: MetricQueries,
    metric: Metric,
    units: Units,
    sums: SourceSums,
    by_day: MetricDays,
    days: Sequence[str],
) -> Thirds:
    """The third moments of a metric.

    Args:
        queries: Of the logs.
        metric: A metric whose days add up.
        units: The analysed units.
        sums: What they add up to.
        by_day: The metric's values by day.
        days: Every day (ISO).
    """
    variants = list(queries.experiment.variants)
    presences = [by_day.days[name] for name in variants]
    y, x = (
        np.concatenate([of[n][p.rows] for n, p in zip(variants, presences, strict=True)])
        for of in (by_day.y, by_day.x)
    )
    group = [place + len(variants) * one.day for place, one in enumerate(presences)]
    of_days: dict[str, dict[str, Moments]] = {day: {} for day in days}
    for number, moments in moments_by(metric, (y, x), np.concatenate(group)).items():
        day, variant = divmod(number, len(variants))
        of_days[days[day]][variants[variant]] = moments
    now = values_of(queries, units, metric, sums.whole)
    before = values_of(queries, units, metric, sums.before)
    whole = {variants[n]: one for n, one in moments_by(metric, now, units.variant).items()}
    hidden = queries.experiment.privacy.min_units is not None
    if hidden or not metric.is_mean_or_ratio or len(units.variant) > FEW_UNITS:
        return Thirds(of_days, whole)
    table = np.stack([*now, *before, units.is_new], axis=1).astype(np.float64)
    each = {
        name: Values(*np.unique(table[units.variant == n], axis=0, return_counts=True))
        for n, name in enumerate(variants)
        if name in whole
    }
    few = sum(len(one.counts) for one in each.values()) <= FEW_VALUES
    return Thirds(of_days, with_units(whole, each if few else {}, scales(metric)))


def known_of(metric: Metric, thirds: Thirds, arms: Arms, days: Sequence[str]) -> Known | None:
    """What is known of a metric's skewness in two variants; None where nothing is."""
    windows: dict[tuple[Span, bool], tuple[Moments, Moments]] = {}
    for place, day in enumerate(days):
        _put(windows, ((place, place), False), thirds.days.get(day, {}), arms)
    whole = ((0, len(days) - 1), True)
    _put(windows, whole, thirds.whole, arms)
    compared = {key: _compared(metric, *pair) for key, pair in windows.items()}
    of_all = compared.pop(whole, None)
    of_days = [one for one in compared.values() if one is not None]
    if of_all is None or not of_days:
        return None
    units = sum(one.units for one in of_days)
    of_day = sum(skewness_of(one) * one.units for one in of_days) / units
    scaled = of_all.scaled and all(one.scaled for one in of_days)
    return Known(windows, Shape(of_day, skewness_of(of_all), len(days), scaled))


def _put(
    windows: dict[tuple[Span, bool], tuple[Moments, Moments]],
    key: tuple[Span, bool],
    moments: ByVariant,
    arms: Arms,
) -> None:
    if all(name in moments for name in arms):
        windows[key] = moments[arms.control], moments[arms.treatment]


def _compared(metric: Metric, control: Moments, treatment: Moments) -> Skewed | None:
    terms = (0,) if metric.kind == "mean" else (0, 1)
    compare = skewed.means if metric.kind == "mean" else skewed.ratios
    try:
        return compare(control.pick(*terms), treatment.pick(*terms))
    except Refusal:
        return None
