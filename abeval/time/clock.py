"""Sums by hour of the day and by weekday, kept in pairs, as those by day are.

A returning unit is in many hours: the test of one effect in `time/rhythm.py` needs the covariance.
`time/time_sums.py` calls it where the user asks for hours or weekdays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

import numpy as np

from abeval.aggregates.metric_queries import MetricQueries
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.metrics.definition import Metric, RowTerm
from abeval.metrics.sources import UNIT_DAY
from abeval.time.day_pairs import Cells, activity_of, day_pair_sums
from abeval.time.day_sums import DaySums
from abeval.time.open import OpenLogs

By = Literal["hour", "weekday"]
CLOCKS: tuple[By, ...] = get_args(By)

HOURS = tuple(str(hour) for hour in range(24))
WEEKDAYS = tuple(str(day) for day in range(1, 8))
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class ClockSums:
    """Sums by hour of the day, or by weekday.

    Attributes:
        by: `hour` or `weekday`.
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether the log covers one of these days only partly.
        metrics: Metric → variant → its sums by day of entry and hour or weekday.
        refused: Metric → why it has none.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, Mapping[str, DaySums]]
    refused: Mapping[str, str] = field(default_factory=dict)


def weekday_sums(
    queries: MetricQueries, metrics: Sequence[Metric], days: Sequence[str]
) -> dict[str, Mapping[str, DaySums]]:
    """Sums by weekday of metrics whose source is loaded as `placed_day`.

    `time_sums.sums_of` loads it, and also writes `entry`.
    """
    listed = ", ".join(
        f"(date {literal(day)}, {date.fromisoformat(day).isoweekday()})" for day in days
    )
    queries.engine.view("weekday_of", f"select * from (values {listed}) as v (date, weekday)")
    return _part_sums(queries, metrics, "time/unit_weekday", days, WEEKDAYS)


def hour_sums(logs: OpenLogs, days: Sequence[str], partial: frozenset[str]) -> ClockSums:
    """The metrics that are sums over impressions, by local hour of the day."""
    metrics = [m for m in logs.metrics if m.source is UNIT_DAY and _of_rows(m)]
    refused = {
        m.name: "effects by hour are only for sums over impressions"
        for m in logs.metrics
        if m not in metrics
    }
    sums = _part_sums(logs.queries, metrics, "time/unit_hour", days, HOURS) if metrics else {}
    labels = tuple(f"{int(hour):02d}:00" for hour in HOURS)
    size = len(days)
    return ClockSums("hour", labels, (size,) * 24, (bool(partial),) * 24, sums, refused)


def by_weekday(
    sums: Mapping[str, Mapping[str, DaySums]], days: Sequence[str], partial: frozenset[str]
) -> ClockSums:
    """The sums by weekday of all sources."""
    of_day = {day: date.fromisoformat(day).isoweekday() - 1 for day in days}
    sizes = np.bincount(list(of_day.values()), minlength=7)
    marked = {of_day[day] for day in partial if day in of_day}
    return ClockSums(
        by="weekday",
        labels=_NAMES,
        days=tuple(int(n) for n in sizes),
        partial=tuple(place in marked for place in range(7)),
        metrics=sums,
    )


def _of_rows(metric: Metric) -> bool:
    return all(isinstance(term, RowTerm) for term in (metric.value, metric.per) if term is not None)


def _part_sums(
    queries: MetricQueries,
    metrics: Sequence[Metric],
    cells: str,
    days: Sequence[str],
    parts: Sequence[str],
) -> dict[str, Mapping[str, DaySums]]:
    """Sums by day of entry and part of time, from the query of its cells.

    Which units were active in two parts is not counted: the day before is empty.
    """
    queries.engine.table("unit_cell", query(cells))
    units = [
        (variant, cohort, "", part, count)
        for variant, cohort, part, count in queries.engine.rows(query("time/cell_units"))
    ]
    activity = activity_of(queries, units, days, parts)
    return day_pair_sums(queries, metrics, Cells("unit_cell", days, parts, activity))
