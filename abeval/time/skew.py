"""How skewed the values behind windows are, from the days and from all of them together.

Windows are sums over pairs of days, which have no third moments: those of every day and of the
whole period are summed beside them. With these, a day and the whole are judged as in the scorecard;
other windows take a skewness in between. `time/time_sums.py` asks for the sums, `time/analysis.py`
for what is known of a metric in a variant, and `time/axes.py` judges by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import WHOLE, moments_of_rows
from abeval.aggregates.terms import Row, SliceTerms, Terms
from abeval.aggregates.unit_values import unit_values, units_of, with_units
from abeval.inference.aa_sums import skewness_of
from abeval.inference.comparison import Arms
from abeval.inference.skew import Shape
from abeval.metrics.definition import Metric, scales
from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.split_moments import Skewed
from abeval.time.day_sums import Span

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


def thirds_of(queries: MetricQueries, metrics: Sequence[Metric]) -> dict[str, Thirds]:
    """Metric → its third moments, of metrics of one source whose table `placed_day` is written."""
    by_day = queries.of_days(metrics)
    queries.total_units(metrics[0].source)
    whole = queries.sums(
        [SliceTerms(m, WHOLE, "''", Terms(*queries.both(m, "t_"))) for m in metrics]
    )
    units = units_of(unit_values(queries, metrics))
    return {
        m.name: Thirds(
            _by_cell(m, by_day),
            with_units(_by_cell(m, whole).get("", {}), units.get(m.name, {}), scales(m)),
        )
        for m in metrics
    }


def _by_cell(metric: Metric, rows: Sequence[Row]) -> dict[str, ByVariant]:
    cells: dict[str, list[Row]] = {}
    for row in rows:
        if row[0] == metric.name:
            cells.setdefault(str(row[2]), []).append(row)
    return {cell: moments_of_rows(own, 1, scales(metric))[0] for cell, own in cells.items()}


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
