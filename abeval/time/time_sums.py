"""Open logs and sum their days: what windows, growth and A/A replays are computed from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from abeval.aggregates import aggregates
from abeval.aggregates.collect import Collected, unit_counts
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.source_values import Caps, SourceValues, rows_of
from abeval.aggregates.sums import DAY, WHOLE, ByStretch, Row, by_stretch, slices_of, sums_of
from abeval.aggregates.unit_rows import ROW_SOURCES, row_sums
from abeval.aggregates.wanted import refusals, wanted_of
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.builders import local_ms
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.aa import aa_replays
from abeval.inference.compare import Analysis, compare_all
from abeval.inference.comparison import Arms, Key, Rule
from abeval.inference.context import partial_days
from abeval.inference.means_and_ratios import estimate
from abeval.inference.outlook import Growth, dates_of
from abeval.logs.accounting import accounts, check_all_counted, check_some_left, days_of
from abeval.logs.placing import Stretches, entry_stretches
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, Labels, Whole
from abeval.logs.units import sub_buckets
from abeval.metrics.definition import CATALOGUE, Metric, Source, UnitTerm, scales
from abeval.progress import Step
from abeval.results.trust import AAResult
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Refusal
from abeval.time import day_sums
from abeval.time.day_sums import DaySums, MetricDays, Panel, Presence, Thirds

if TYPE_CHECKING:
    from abeval.time.windows import Window

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class OpenLogs:
    """Logs that are read, and the metrics that they can give.

    Attributes:
        refused: Metric → why the logs cannot give it.
        stretches: Stretches of entry days of one split each; none where it did not change.
    """

    read: ReadLogs
    metrics: tuple[Metric, ...]
    refused: Mapping[str, str]
    stretches: Stretches = ()

    @classmethod
    def of(cls, read: ReadLogs, metrics: Sequence[Metric]) -> "OpenLogs":
        """Open logs that were read for these metrics, among others."""
        experiment = read.experiment
        lacks = refusals(metrics, read.shape.needs_met(experiment.unit))
        return cls(
            read,
            tuple(metric for metric in metrics if metric.name not in lacks),
            {name: f"the logs lack {', '.join(columns)}" for name, columns in lacks.items()},
            entry_stretches(experiment, read.prepared.placed.entered),
        )


def open_logs(
    run: Run, metrics: Sequence[Metric], of_rows: Sequence[Metric], by_day: bool = False
) -> OpenLogs:
    """Read the logs, and for some metrics single impressions; with days if windows are computed.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    prepared = prepare(run, metrics, by_arrays=ROW_SOURCES, units_read=False)
    check_some_left(run.experiment, prepared, run.engine)
    check_all_counted(prepared, accounts(prepared, run.engine))
    wanted = wanted_of(run.experiment, of_rows, prepared)._replace(spreads=())
    bucket = np.zeros(0, dtype=np.int16)
    if CATALOGUE in wanted.sources:
        bucket = sub_buckets(run.engine, run.experiment, prepared.placed.units.hash)
    rows = row_sums(run, prepared, wanted, bucket, by_day)
    return OpenLogs.of(ReadLogs(run, prepared, rows), metrics)


By = Literal["hour", "weekday"]


class SourceSums(NamedTuple):
    """What units are in the columns of a source: on each row of a `Panel`, and over the period.

    A row is 0 where the source knows nothing of the day; the period comes with what was before it.
    """

    by_day: SourceValues
    whole: SourceValues


class TimedLogs(NamedTuple):
    """Open logs with their days.

    Attributes:
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


class ClockSums(NamedTuple):
    """Values by hour of the day, or by weekday.

    Attributes:
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether the log covers one of these days only partly.
        metrics: Metric → its values by hour or weekday; those without are `refused`.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, MetricDays]
    refused: Sequence[str] = ()


@dataclass(frozen=True)
class Timeline:
    """An experiment's sums over time, and which windows and looks are wanted of them.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            of entry days and variant.
        stretches: Those stretches; none where the split did not change.
        thirds: Metric → third moments of the days and of all days, of metrics whose days add up;
            none where the split changed, as stretches are combined without them.
        looks: Days of planned looks; without, those of the experiment file.
        cuts: Metric and variant → windows that are no sums over days.
    """

    experiment: Experiment
    days: tuple[str, ...]
    partial: frozenset[str]
    entered: Mapping[str, Whole]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, ByStretch] = field(default_factory=dict)
    stretches: Stretches = ()
    thirds: Mapping[str, Thirds] = field(default_factory=dict)
    widths: Sequence[int] = ()
    looks: Sequence[int] = ()
    cuts: Mapping[Key, Sequence["Window"]] = field(default_factory=dict)
    clocks: Sequence[ClockSums] = ()

    @cached_property
    def strata(self) -> day_sums.Strata:
        """Groups of entry days whose traffic was split at the same shares."""
        return day_sums.strata_of(self.stretches, self.days)

    @property
    def rule(self) -> Rule:
        """Return how effects are judged: at a fixed horizon, without adjustment."""
        return Rule(self.experiment.alpha, self.experiment.inference.relative)

    def known(self, metric: Metric, variant: str) -> day_sums.Known | None:
        """Return how skewed a metric is in a variant and control, None where not known."""
        thirds, arms = self.thirds.get(metric.name), Arms(self.experiment.control, variant)
        return None if thirds is None else day_sums.known_of(metric, thirds, arms, self.days)


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
    for source, group in aggregates.grouped(logs.metrics, lambda metric: metric.source).items():
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
    whole = read.values(days)
    whole.check_none_missing(metrics)
    return SourceSums(whole.at(panel.unit, by_day), whole)


def columns_of(read: ReadLogs, metrics: Sequence[Metric]) -> list[str]:
    """Return the columns of their source that metrics of one source read, each once."""
    terms = [
        term
        for m in metrics
        for term in (
            m.value,
            m.per,
            *m.covariates,
            *(m.known or ()),
            *(t for _, t in m.lacking if m.missing == "refuse"),
        )
    ]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    variants = read.experiment.variants
    return list(dict.fromkeys(read.shape.component(t, v) for t in logged for v in variants))


def timeline_of(timed: TimedLogs) -> Timeline:
    """Sum what effects are computed from."""
    logs, days = timed.logs, timed.days
    presences = timed.panel.presences(timed.variants, len(days))
    # A partial last day is no day since entry that was observed.
    observed = len(days) - (len(days) > 1 and days[-1] in timed.partial)
    ages = {name: one.by_age(observed) for name, one in presences.items()}
    no_days = {m.name: m.source.no_days for m in logs.metrics if m.source.no_days is not None}
    before, thirds = dict[str, ByStretch](), dict[str, Thirds]()
    for source, sums in timed.sources.items():
        metrics = [m for m in logs.metrics if m.source == source and source.daily]
        if logs.read.experiment.pre_period is not None:
            before |= _before(logs, sums.whole, metrics)
        if not logs.stretches:
            thirds |= _thirds(timed, sums, metrics)
    return Timeline(
        logs.read.experiment,
        days,
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
    among = values.among(metric)
    if among is not None:
        days, ages = ({name: one.among(among) for name, one in of.items()} for of in (days, ages))
    return MetricDays(days, ages, y, x, scales(metric), metric.per is None)


def _before(logs: OpenLogs, whole: SourceValues, metrics: Sequence[Metric]) -> dict[str, ByStretch]:
    """Return moments of (y, x) before the period by metric."""
    rows, places = slices_of(whole.by_cell(metrics, WHOLE, before=True)), len(logs.stretches) or 1
    return {m.name: by_stretch(rows[m.name, WHOLE][""], places, scales(m), 2) for m in metrics}


def _thirds(timed: TimedLogs, sums: SourceSums, metrics: Sequence[Metric]) -> dict[str, Thirds]:
    """Return third moments by metric, of a split that did not change."""
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
    """Return the growth of each metric whose days add up; none of logs without time."""
    if not len(collected.aggregates.days):
        return {}
    if collected.aggregates.clusters is not None:
        return _of_clusters(collected, metrics)
    line = timeline_of(timed(OpenLogs.of(collected.logs, metrics), collected.logs.run.step))
    days, control = len(line.days), line.experiment.control
    ended = days - (days > 1 and line.days[-1] in line.partial)
    growths = dict[str, Growth]()
    for metric in (m for m in metrics if m.name in line.metrics):
        of_days = line.metrics[metric.name]
        sums = of_days.sums({control: of_days.days[control]})[control]
        one = growth(metric, sums, line.entered)
        if one is not None:
            growths[metric.name] = one._replace(ended=ended)
    return growths


def _of_clusters(collected: Collected, metrics: Sequence[Metric]) -> dict[str, Growth]:
    """Return the growth of each metric whose days add up: the clusters stay, and see more."""
    logs, of = collected.logs, collected.aggregates
    own, dates = logs.units.clusters, dates_of(of)
    if own is None:
        return {}
    shape = len(own.variant), len(dates)
    in_control = own.variant == [*logs.experiment.variants].index(logs.experiment.control)
    ended = shape[1] - (shape[1] > 1 and dates[-1] in partial_days(logs.experiment, of.days))
    first_day = np.datetime64(dates[0]).astype(np.int64)
    growths = dict[str, Growth]()
    wanted = [m for m in metrics if m.source.daily and m.name not in of.refused]
    for source, group in aggregates.grouped(wanted, lambda metric: metric.source).items():
        days = logs.days(source, group)
        rows = np.flatnonzero(days.in_period & (days.day != NO_DAY))
        unit = days.unit[rows]
        cell = own.of_unit[unit] * shape[1] + days.day[rows].astype(np.int64) - first_day
        # A unit counts from its first day on.
        is_first = np.append(True, unit[1:] != unit[:-1])
        for metric in group:
            pair = logs.values(days).pair(metric, days.columns)
            values = (is_first * v if isinstance(v, int) else v[rows] for v in pair)
            tables = [np.bincount(cell, v, math.prod(shape)).reshape(shape) for v in values]
            totals = [table.cumsum(axis=1)[in_control].T for table in tables]
            daily = [Moments.of(y, x) for y, x in zip(*totals, strict=True)]
            one = _grown(metric, daily, [float(shape[0])] * shape[1])
            growths |= {} if one is None else {metric.name: one._replace(ended=ended)}
    return growths


def growth(metric: Metric, control: DaySums, entered: Mapping[str, Whole]) -> Growth | None:
    """Return the growth of one metric from its sums in control, None where it has no spread.

    Days at the start without an estimate take that of the first day that has one.
    """
    days = control.presence.days
    windows = [(range(day + 1), (0, day)) for day in range(days)]
    units = np.cumsum(sum(entered.values())).astype(float).tolist()
    return _grown(metric, control.windows(windows, entered=True), units)


def _grown(metric: Metric, control: Sequence[Moments], units: list[float]) -> Growth | None:
    """Return the growth from control's moments up to the end of each day."""
    estimates = [_relative(metric, one) for one in control]
    known = [one for one in estimates if one is not None]
    if not known:
        return None
    filled: list[tuple[float, float]] = []
    for one in estimates:
        filled.append(one or (filled[-1] if filled else known[0]))
    values, spreads = zip(*filled, strict=True)
    return Growth(units, values, spreads, is_total=metric.per is None)


def _relative(metric: Metric, control: Moments) -> tuple[float, float] | None:
    """Return control's value, and its variance between units over its square."""
    try:
        one = estimate(metric, control)
    except Refusal:
        return None
    if one.value == 0 or not one.variance > 0:
        return None
    return one.value, one.variance * one.units / one.value**2


def aa(
    run: Run, metrics: Sequence[Metric], runs: int, seed: int, logs: OpenLogs | None = None
) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs, which may be open already."""
    replayed = [metric for metric in metrics if metric.source.no_replays is None]
    logs = logs or open_logs(run, metrics, replayed)
    units, refused = logs.read.units, dict(logs.refused)
    counts = unit_counts(run.experiment, units)
    by_units = aggregates.deals_units(sum(counts.values()))
    bucket = None if by_units else sub_buckets(run.engine, run.experiment, units.hash)
    sums, moments = dict[str, aggregates.BucketSums](), list[Row]()
    known, clusters = dict[str, Caps](), dict[str, Floats]()
    for source, group in aggregates.grouped(logs.metrics, lambda metric: metric.source).items():
        if source.no_replays is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_replays)
            continue
        run.step(f"sums per sub-bucket of {source}")
        values = logs.read.values(logs.read.days(source, group))
        sums |= {m.name: values.buckets(m, bucket).scaled(*scales(m)) for m in group}
        moments += sums_of([one for m in group for one in values.slices(m)], values.groups)
        known |= {m.name: values.caps(m) for m in group if m.cap is not None}
        clusters |= {m.name: values.of_clusters(m) for m in group}
    run.step("replays")
    ordered = [metric for metric in metrics if metric.name in sums]
    counted = aggregates.Aggregates(
        moments=moments,
        units=counts,
        caps=known,
        facts={"clicks": 1, "scored": 1},
        stretches=logs.read.prepared.placed.stretches,
        clusters=units.clusters,
        cluster_sums=clusters,
    )
    analysis = Analysis(run.experiment, ordered, counted)
    comparisons = compare_all(replace(analysis, experiment=run.experiment.at_one_look))
    by_metric = {metric.name: sums[metric.name] for metric in ordered}
    result = aa_replays(analysis, comparisons, counts, by_metric, runs, seed)
    return replace(result, refused={**refused, **result.refused})
