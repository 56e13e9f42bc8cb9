"""Values by hour of the day and by weekday, of every unit.

A returning unit is in many hours: the test of one effect in `time/rhythm.py` needs the covariance.
`time/analysis.py` calls it where the user asks for hours or weekdays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

import numpy as np

from abeval.logs.cells import HOURS
from abeval.logs.unit_arrays import NO_DAY, NONE, Whole
from abeval.metrics.definition import UNIT_DAY, Metric, RowTerm
from abeval.time.day_sums import MetricDays, Panel
from abeval.time.time_sums import TimedLogs, columns_of, metric_days, presences_of

By = Literal["hour", "weekday"]
CLOCKS: tuple[By, ...] = get_args(By)

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class ClockSums:
    """Values by hour of the day, or by weekday.

    Attributes:
        by: `hour` or `weekday`.
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether the log covers one of these days only partly.
        metrics: Metric → its values by hour or weekday.
        refused: Metric → why it has none.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str] = field(default_factory=dict)


def hour_sums(timed: TimedLogs) -> ClockSums:
    """The metrics that are sums over impressions, by local hour of the day."""
    logs, queries = timed.logs, timed.logs.queries
    metrics = [m for m in logs.metrics if m.source is UNIT_DAY and _of_rows(m)]
    refused = {
        m.name: "effects by hour are only for sums over impressions"
        for m in logs.metrics
        if m not in metrics
    }
    sums: dict[str, MetricDays] = {}
    if metrics:
        columns = columns_of(queries.shape, queries.experiment.variants, metrics)
        panel, by_hour = _by_hour(timed, columns)
        sums = _metrics(timed, panel, dict.fromkeys(metrics, by_hour))
    labels = tuple(f"{hour:02d}:00" for hour in range(24))
    size = len(timed.days)
    return ClockSums("hour", labels, (size,) * 24, (bool(timed.partial),) * 24, sums, refused)


def _by_hour(timed: TimedLogs, columns: Sequence[str]) -> tuple[Panel, dict[str, Whole]]:
    """The hours of the day in which each unit has an impression, and its sums in each."""
    cells, unit_of = timed.logs.prepared.cells, timed.logs.prepared.placed.unit_of
    unit = unit_of[cells.unit]
    rows = np.flatnonzero(cells.counts & cells.in_period & (unit != NONE) & (cells.hour != NO_DAY))
    cell = unit[rows] * HOURS + cells.hour[rows] % HOURS
    order = np.argsort(cell, kind="stable")
    known, starts = np.unique(cell[order], return_index=True)
    sums = {name: np.add.reduceat(cells.sums[name][rows][order], starts) for name in columns}
    hours = (known // HOURS).astype(np.int32), (known % HOURS).astype(np.int32)
    return Panel(timed.panel.units, timed.panel.entry, *hours, HOURS), sums


def weekday_sums(timed: TimedLogs) -> ClockSums:
    """Every metric that has days, by weekday."""
    weekday = np.array([date.fromisoformat(day).weekday() for day in timed.days])
    panel = timed.panel
    cell = panel.unit.astype(np.int64) * 7 + weekday[panel.day]
    order = np.argsort(cell, kind="stable")
    cells, starts = np.unique(cell[order], return_index=True)
    by_weekday = {
        source: {name: np.add.reduceat(c[order], starts) for name, c in sums.by_day.items()}
        for source, sums in timed.sources.items()
    }
    of_weekdays = Panel(
        panel.units, panel.entry, (cells // 7).astype(np.int32), (cells % 7).astype(np.int32), 7
    )
    metrics = [m for m in timed.logs.metrics if m.source in by_weekday]
    sums = _metrics(timed, of_weekdays, {metric: by_weekday[metric.source] for metric in metrics})
    partial = {date.fromisoformat(day).weekday() for day in timed.partial}
    return ClockSums(
        by="weekday",
        labels=_NAMES,
        days=tuple(np.bincount(weekday, minlength=7).tolist()),
        partial=tuple(place in partial for place in range(7)),
        metrics=sums,
    )


def _of_rows(metric: Metric) -> bool:
    return all(isinstance(term, RowTerm) for term in (metric.value, metric.per) if term is not None)


def _metrics(
    timed: TimedLogs, panel: Panel, columns: Mapping[Metric, Mapping[str, Whole]]
) -> dict[str, MetricDays]:
    queries = timed.logs.queries
    presences = presences_of(panel, list(queries.experiment.variants), len(timed.days))
    return {m.name: metric_days(queries, m, own, presences, {}) for m, own in columns.items()}
