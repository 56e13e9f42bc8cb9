"""Sum the days of open logs: what windows, growth and third moments are computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from abeval.aggregates.collect import Collected
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.source_values import SourceValues, rows_of, totals
from abeval.aggregates.sums import (
    DAY,
    WHOLE,
    ByStretch,
    by_stretch,
    slices_of,
)
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.builders import local_ms
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.context import partial_days
from abeval.inference.means_and_ratios import estimate
from abeval.inference.outlook import Growth
from abeval.logs.accounting import days_of
from abeval.logs.placing import Stretches
from abeval.logs.prepare import Prepared
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, Labels, Whole
from abeval.metrics.definition import Metric, Source, UnitTerm, scales
from abeval.progress import Step
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.time.day_sums import DaySums, MetricDays, Panel, Presence, Thirds
from abeval.time.open import OpenLogs, by_source

_DAY_MS = 86_400_000


class SourceSums(NamedTuple):
    """What units are in the columns of a source.

    Attributes:
        by_day: On each row of a `Panel`; 0 where the source knows nothing of the day.
        whole: Over the period, and before it.
    """

    by_day: SourceValues
    whole: SourceValues


class TimedLogs(NamedTuple):
    """Open logs with their days.

    Attributes:
        logs: The logs.
        days: Every day from the first with an impression to the last (ISO).
        first: The first of them, counted from 1970.
        partial: Days that the log covers only in part, or not at all.
        panel: The units, and when they are active.
        sources: What units add up to, of the sources that have days.
    """

    logs: OpenLogs
    days: tuple[str, ...]
    first: int
    partial: frozenset[str]
    panel: Panel
    sources: Mapping[Source, SourceSums]

    @property
    def variants(self) -> list[str]:
        """Return the variants, in their order."""
        return [*self.logs.read.experiment.variants]

    @property
    def observed(self) -> int:
        """Days since entry that can be observed: a partial last day is left out."""
        size = len(self.days)
        return size - (size > 1 and self.days[-1] in self.partial)


@dataclass(frozen=True)
class TimeSums:
    """Everything that windows are computed from.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        entered: Variant → units by day of entry.
        metrics: Metric → its values.
        refused: Metric → why it has none.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            of entry days and variant.
        stretches: Those stretches; none where the split did not change.
        thirds: Metric → third moments of the days and of all days, of metrics whose days add up;
            none where the split changed, as stretches are combined without them.
    """

    days: tuple[str, ...]
    partial: frozenset[str]
    entered: Mapping[str, Whole]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str]
    before: Mapping[str, ByStretch] = field(default_factory=dict)
    stretches: Stretches = ()
    thirds: Mapping[str, Thirds] = field(default_factory=dict)


def timed(logs: OpenLogs, step: Step) -> TimedLogs:
    """Read the days of open logs.

    Raises:
        LogError: The log has no time.
        QueryError: The engine could not run a query.
    """
    read, prepared, units = logs.read, logs.read.prepared, logs.read.units
    if not read.shape.has_time:
        raise LogError(
            "windows need a time, but the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )
    days, partial = _days(read.experiment, prepared)
    first = (date.fromisoformat(days[0]) - date(1970, 1, 1)).days
    entry = np.full(len(units.hash), NO_DAY, dtype=np.int64)
    known = units.first_ms != NO_FIRST
    entry[known] = local_ms(units.first_ms[known], read.experiment.timezone) // _DAY_MS
    active = prepared.days
    rows = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    panel = Panel(units, entry - first, active.unit[rows], active.day[rows] - first, len(days))
    sources = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_days is None:
            step(f"days of {source}")
            sources[source] = _source_sums(read, panel, source, group, first)
    return TimedLogs(logs, days, first, partial, panel, sources)


def _source_sums(
    read: ReadLogs, panel: Panel, source: Source, metrics: Sequence[Metric], first: int
) -> SourceSums:
    """Sum a source on the rows of a panel whose first day is this one."""
    days = read.days(source, metrics, by_day=True)
    names = columns_of(read, metrics)
    days = days._replace(columns={name: days.columns[name] for name in names})
    rows = rows_of(days, panel.unit, panel.day + first)
    by_day = {name: np.append(column, 0)[rows] for name, column in days.columns.items()}
    now, before = (totals(days, part, len(panel.entry)) for part in (True, False))
    whole = SourceValues(read.experiment, read.shape, panel.units, now, before)
    return SourceSums(panel.values(read, by_day), whole)


def columns_of(read: ReadLogs, metrics: Sequence[Metric]) -> list[str]:
    """Return the columns of their source that metrics of one source read, each once."""
    terms = [t for metric in metrics for t in (metric.value, metric.per, *metric.covariates)]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    variants = read.experiment.variants
    return list(dict.fromkeys(read.shape.component(t, v) for t in logged for v in variants))


def sums_of(timed: TimedLogs) -> TimeSums:
    """Sum what effects are computed from."""
    logs = timed.logs
    presences = timed.panel.presences(timed.variants, len(timed.days))
    ages = {name: one.by_age(timed.observed) for name, one in presences.items()}
    no_days = {m.name: m.source.no_days for m in logs.metrics if m.source.no_days is not None}
    before, thirds = dict[str, ByStretch](), dict[str, Thirds]()
    for source, sums in timed.sources.items():
        metrics = [m for m in logs.metrics if m.source == source and source.daily]
        if logs.read.experiment.pre_period is not None:
            before |= _before(logs, sums.whole, metrics)
        if not logs.stretches:
            thirds |= _thirds(timed, sums, metrics)
    return TimeSums(
        timed.days,
        timed.partial,
        entered={name: one.entered for name, one in presences.items()},
        metrics={
            metric.name: metric_days(metric, timed.sources[metric.source].by_day, presences, ages)
            for metric in logs.metrics
            if metric.source in timed.sources
        },
        refused={**logs.refused, **no_days},
        before=before,
        stretches=logs.stretches,
        thirds=thirds,
    )


def metric_days(
    metric: Metric,
    values: SourceValues,
    days: Mapping[str, Presence],
    ages: Mapping[str, Presence],
) -> MetricDays:
    """Return the values of a metric on the rows of a panel."""
    y, x = (
        np.broadcast_to(one, len(values.units.variant)) for one in values.pair(metric, values.now)
    )
    return MetricDays(days, ages, y, x, scales(metric), metric.per is None)


def _before(logs: OpenLogs, whole: SourceValues, metrics: Sequence[Metric]) -> dict[str, ByStretch]:
    """Metric → its moments of (y, x) before the period."""
    rows, places = slices_of(whole.by_cell(metrics, WHOLE, before=True)), len(logs.stretches) or 1
    return {m.name: by_stretch(rows[m.name, WHOLE][""], places, scales(m), 2) for m in metrics}


def _thirds(timed: TimedLogs, sums: SourceSums, metrics: Sequence[Metric]) -> dict[str, Thirds]:
    """Metric → its third moments, of a split that did not change."""
    days = sums.by_day.by_cell(metrics, DAY, Labels(timed.panel.day, timed.days))
    rows = slices_of([*days, *sums.whole.by_cell(metrics, WHOLE)])

    def moments(metric: Metric, name: str) -> dict[str, Mapping[str, Moments]]:
        cells = rows.get((metric.name, name), {})
        return {cell: by_stretch(own, 1, scales(metric), 2)[0] for cell, own in cells.items()}

    return {m.name: Thirds(moments(m, DAY), moments(m, WHOLE)[""]) for m in metrics}


def _days(experiment: Experiment, prepared: Prepared) -> tuple[tuple[str, ...], frozenset[str]]:
    """List the days from the first to the last impression, and those lacking in part."""
    with_units = days_of(prepared)
    if not with_units:
        raise LogError("no analysed unit has an impression with a time in the period")
    known = [one.day for one in with_units]
    first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
    size = (last - first).days + 1
    if size > MAX_WINDOW_DAYS:
        # Such as a log with a row of 1970.
        raise LogError(
            f"the analysed days run from {first} to {last}, {size:,} days: windows are computed "
            f"over at most {MAX_WINDOW_DAYS}",
            "set or shorten [period]; a row with a wrong time may be the cause",
        )
    days = tuple(str(first + timedelta(days=i)) for i in range(size))
    return days, frozenset(partial_days(experiment, with_units) | ({*days} - {*known}))


def growths_of(collected: Collected, metrics: Sequence[Metric]) -> dict[str, Growth]:
    """Return the growth of each metric whose days add up; none of logs without time.

    Raises:
        LogError: The log covers more days than can be followed.
    """
    if not len(collected.aggregates.days):
        return {}
    run = collected.logs.run
    sums = sums_of(timed(OpenLogs.of(collected.logs, metrics), run.step))
    days = len(sums.days)
    ended = days - (days > 1 and sums.days[-1] in sums.partial)
    by_name = {metric.name: metric for metric in metrics}
    control = run.experiment.control
    growths = {
        name: growth(by_name[name], one.sums({control: one.days[control]})[control], sums.entered)
        for name, one in sums.metrics.items()
    }
    return {n: one._replace(ended=ended) for n, one in growths.items() if one is not None}


def growth(metric: Metric, control: DaySums, entered: Mapping[str, Whole]) -> Growth | None:
    """Return the growth of one metric, None where it has no spread.

    Days at the start without an estimate take that of the first day that has one.

    Args:
        metric: A mean or a ratio.
        control: Its sums in control.
        entered: Variant → units by day of entry.
    """
    days = control.presence.days
    windows = [(range(day + 1), (0, day)) for day in range(days)]
    estimates = [_relative(metric, one) for one in control.windows(windows, entered=True)]
    known = [one for one in estimates if one is not None]
    if not known:
        return None
    units = [
        float(sum(units[: day + 1].sum() for units in entered.values())) for day in range(days)
    ]
    first, filled = known[0], []
    for one in estimates:
        first = first if one is None else one
        filled.append(first)
    values, spreads = zip(*filled, strict=True)
    return Growth(units, values, spreads, is_total=metric.kind == "mean")


def _relative(metric: Metric, control: Moments) -> tuple[float, float] | None:
    """Control's value, and its variance between units over its square."""
    try:
        one = estimate(metric, control)
    except Refusal:
        return None
    if one.value == 0 or not one.variance > 0:
        return None
    return one.value, one.variance * one.units / one.value**2
