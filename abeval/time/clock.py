"""Sums by hour of the day and by weekday: parts of time that come round again.

A returning unit is in many hours, so its sums by hour are kept in pairs, as those by day are:
effects by hour are not independent, and a test of one effect needs their covariance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

import numpy as np

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.metrics.definition import Metric, RowTerm
from abeval.metrics.sources import UNIT_DAY
from abeval.time.opened import Opened
from abeval.time.pairs import cohort_of, pair_sums
from abeval.time.sums import Activity, DaySums

By = Literal["hour", "weekday"]
CLOCKS: tuple[By, ...] = get_args(By)

HOURS = tuple(str(hour) for hour in range(24))
WEEKDAYS = tuple(str(day) for day in range(1, 8))
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class ClockSums:
    """Sums by hour of the day, or by weekday.

    Attributes:
        by: Which.
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether one of them is only partly covered.
        metrics: Metric → variant → its sums by day of entry and part of time.
        refused: Metric → why it has none.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, Mapping[str, DaySums]]
    refused: Mapping[str, str] = field(default_factory=dict)


def weekday_sums(
    opened: Opened, metrics: Sequence[Metric], days: Sequence[str]
) -> dict[str, Mapping[str, DaySums]]:
    """The source that stands in `placed_unit_day`, by weekday."""
    engine = opened.run.engine
    listed = ", ".join(
        f"(date {literal(day)}, {date.fromisoformat(day).isoweekday()})" for day in days
    )
    engine.view("weekday_of", f"select * from (values {listed}) as v (date, weekday)")
    engine.table("unit_cell", query("time/unit_weekday"))
    activity = _activity(engine, opened.run.experiment.variants, days, WEEKDAYS)
    return pair_sums(opened.run, metrics, "unit_cell", days, WEEKDAYS, activity)


def hour_sums(opened: Opened, days: Sequence[str], partial: frozenset[str]) -> ClockSums:
    """The metrics that are sums over impressions, by local hour of the day."""
    metrics = [m for m in opened.metrics if m.source is UNIT_DAY and _of_rows(m)]
    refused = {
        m.name: "by hour there are only sums over impressions"
        for m in opened.metrics
        if m not in metrics
    }
    found: Mapping[str, Mapping[str, DaySums]] = {}
    if metrics:
        engine = opened.run.engine
        engine.table("unit_cell", query("time/unit_hour"))
        activity = _activity(engine, opened.run.experiment.variants, days, HOURS)
        found = pair_sums(opened.run, metrics, "unit_cell", days, HOURS, activity)
    labels = tuple(f"{int(hour):02d}:00" for hour in HOURS)
    size = len(days)
    return ClockSums("hour", labels, (size,) * 24, (bool(partial),) * 24, found, refused)


def by_weekday(
    found: Mapping[str, Mapping[str, DaySums]],
    days: Sequence[str],
    partial: frozenset[str],
) -> ClockSums:
    """What the sources' weekdays add up to."""
    of_day = {day: date.fromisoformat(day).isoweekday() - 1 for day in days}
    sizes = np.bincount(list(of_day.values()), minlength=7)
    marked = {of_day[day] for day in partial if day in of_day}
    return ClockSums(
        by="weekday",
        labels=_NAMES,
        days=tuple(int(n) for n in sizes),
        partial=tuple(place in marked for place in range(7)),
        metrics=found,
    )


def _of_rows(metric: Metric) -> bool:
    return all(isinstance(term, RowTerm) for term in (metric.value, metric.per) if term is not None)


def _activity(
    engine: Engine,
    variants: Sequence[str] | Mapping[str, object],
    days: Sequence[str],
    parts: Sequence[str],
) -> dict[str, Activity]:
    """Units of each cohort in each part of time; of whole windows of parts nothing is known."""
    names, place = tuple(variants), {part: i for i, part in enumerate(parts)}
    cohorts, size = len(days), len(parts)
    returns = {name: np.zeros((cohorts, size + 1, size), dtype=np.int64) for name in names}
    entered = {name: np.zeros(cohorts, dtype=np.int64) for name in names}
    for variant, cohort, part, units in engine.rows(query("time/cell_units")):
        returns[str(variant)][cohort_of(str(cohort), days), 0, place[str(part)]] += int(units or 0)
    for variant, cohort, units in engine.rows(query("time/entered")):
        entered[str(variant)][cohort_of(str(cohort), days)] += int(units or 0)
    return {name: Activity(entered[name], returns[name]) for name in names}
